"""Submit tests of a run, or of all runs below a folder."""

from pathlib import Path

from jade.commands.job_flags import JobParser, carry_out, read_resources
from jade.commands.submit import COMMANDS
from jade.errors import ConfigError


def main(tokens: list[str], program: str) -> int:
    """Run ``jade submit test``."""
    parser = JobParser(program, "RUN|FOLDER [arguments as for jade test]", COMMANDS["test"])
    parsed = parser.parse(tokens)
    if parsed is None:
        return 0
    namespace, others = parsed
    if not others or others[0].startswith("-"):
        raise ConfigError(f"What is to be tested? {program} RUN|FOLDER comes first.")
    from jade.launch.submission import Wish
    from jade.runs import default_root, find_run

    # The working directory of the job is another one.
    path = Path(others[0])
    if not path.exists():
        path = find_run(others[0]).path
    wish = Wish(
        kind="test",
        name=str(namespace.job_name or f"test-{path.resolve().name}"),
        command=("jade", "test", str(path.absolute()), *others[1:]),
        resources=read_resources(namespace, []),
        experiments_root=default_root(),
        jobs_root=Path(namespace.jobs_root),
        logs=Path(namespace.logs) if namespace.logs else None,
        budget=namespace.replace,
        scheduler=namespace.scheduler,
    )
    return carry_out(wish, namespace)
