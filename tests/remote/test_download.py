import base64
import hashlib

import pytest

from jade.remote.download import RemoteFile


def described(content, md5):
    return RemoteFile("jade/x", len(content), md5, "", None)


@pytest.mark.parametrize("is_hex", [False, True])
def test_file_is_compared_with_the_checksum_of_the_server(tmp_path, is_hex):
    content = b"what was uploaded"
    found = hashlib.md5(content)
    md5 = found.hexdigest() if is_hex else base64.b64encode(found.digest()).decode()
    path = tmp_path / "x"
    path.write_bytes(content)
    assert described(content, md5).problem_of(path) is None
    path.write_bytes(content.swapcase())
    assert described(content, md5).problem_of(path) == "its checksum is another one"
    path.write_bytes(content[:5])
    assert described(content, md5).problem_of(path) == "5 of 17 bytes have arrived"


def test_server_without_a_checksum_is_believed_in_sizes(tmp_path):
    path = tmp_path / "x"
    path.write_bytes(b"abc")
    assert described(b"xyz", "").problem_of(path) is None
