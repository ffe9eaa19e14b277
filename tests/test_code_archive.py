import io
import zipfile

import pytest

from jade import code_archive
from jade.code_archive import unpack_code
from jade.errors import CheckpointError
from jade.publisher import pack


@pytest.fixture
def code(tmp_path):
    folder = tmp_path / "code"
    for name in ("modules/a.py", "modules/deep/b.py", "external/2/c.py"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(f"NAME = {name!r}\n")
    return folder


def zip_of(path, **members):
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return path


def files_below(folder):
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_code_survives_the_way_through_a_zip(code, tmp_path):
    pack(code, tmp_path / "code.zip")
    unpack_code(tmp_path / "code.zip", tmp_path / "again")
    assert files_below(tmp_path / "again") == files_below(code)


def test_unpacked_code_replaces_what_was_there(code, tmp_path):
    pack(code, tmp_path / "code.zip")
    old = tmp_path / "again" / "old.py"
    old.parent.mkdir()
    old.write_text("")
    unpack_code(tmp_path / "code.zip", tmp_path / "again")
    assert not old.exists()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["again", "code", "code.zip"]


@pytest.mark.parametrize(
    "name", ["../out.py", "/etc/out.py", "a/../../out.py", "a\\b.py", "C:x.py"]
)
def test_member_that_leads_out_of_the_folder_is_refused_and_nothing_is_written(tmp_path, name):
    path = zip_of(tmp_path / "code.zip", **{"fine.py": "", name: "bad = 1"})
    with pytest.raises(CheckpointError, match="leads out of the folder"):
        unpack_code(path, tmp_path / "inner" / "code")
    assert files_below(tmp_path).keys() == {"code.zip"}


def test_member_that_is_too_large_is_refused_before_it_is_read(tmp_path, monkeypatch):
    monkeypatch.setattr(code_archive, "MAX_TEXT_BYTES", 1000)
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("bomb.py", "0" * 100_000)
    (tmp_path / "code.zip").write_bytes(content.getvalue())
    with pytest.raises(CheckpointError, match=r"bomb.py has 100,000 bytes"):
        unpack_code(tmp_path / "code.zip", tmp_path / "code")
    assert not (tmp_path / "code").exists()


def test_zip_that_was_cut_is_refused_and_the_folder_stays(code, tmp_path):
    path = tmp_path / "code.zip"
    pack(code, path)
    path.write_bytes(path.read_bytes()[:-30])
    before = files_below(code)
    with pytest.raises(CheckpointError, match=r"code\.zip cannot be unpacked"):
        unpack_code(path, code)
    assert files_below(code) == before
