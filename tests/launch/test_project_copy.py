from jade.launch.project_copy import MOST_FILES, ProjectCopy


def make(project, *names, text="x"):
    for name in names:
        path = project / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def test_code_is_copied_and_all_else_is_linked(tmp_path):
    project, target = tmp_path / "project", tmp_path / "copy"
    names = ["train.py", "modules/models/a.py", "modules/weights.bin", "data/images/1.png", ".env"]
    make(project, *names, "experiments/run/code/old.py", "jobs/first/job.sh", ".git/config")
    copy = ProjectCopy(project, (project / "jobs",), (project / "experiments",))
    assert copy.make(target) == 2
    for name in names:
        assert (target / name).read_text() == "x"
    linked = {str(p.relative_to(target)) for p in target.rglob("*") if p.is_symlink()}
    assert linked == {".env", "data", "experiments", "modules/weights.bin"}
    assert not (target / "jobs").exists()
    assert not (target / ".git").exists()


def test_later_edits_do_not_reach_the_copy(tmp_path):
    project, target = tmp_path / "project", tmp_path / "copy"
    make(project, "modules/a.py", "conf/a.yml", text="before")
    ProjectCopy(project).make(target)
    make(project, "modules/a.py", "conf/a.yml", text="after")
    assert (target / "modules/a.py").read_text() == (target / "conf/a.yml").read_text() == "before"


def test_masses_of_files_are_not_copied(tmp_path):
    project, target = tmp_path / "project", tmp_path / "copy"
    make(project, "a.py", *(f"labels/{number}.json" for number in range(MOST_FILES + 1)))
    assert ProjectCopy(project).make(target) == 1
    assert (target / "labels").is_symlink()


def test_large_files_are_not_copied(tmp_path):
    project, target = tmp_path / "project", tmp_path / "copy"
    make(project, "tables/small.csv")
    make(project, "tables/large.csv", text="x" * (2**20 + 1))
    assert ProjectCopy(project).make(target) == 1
    assert (target / "tables/large.csv").is_symlink()
