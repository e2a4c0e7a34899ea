"""What numba has compiled is used only with the kernels that it was compiled from."""

from pathlib import Path

from cloudsim.model.jit import cache_directory


def test_a_change_of_any_kernel_makes_all_others_compile_again(tmp_path: Path) -> None:
    """One kernel contains others: numba sees only that its own file has not changed."""
    kernel = "from cloudsim.model.jit import compiled\n"
    (tmp_path / "inner.py").write_text(kernel)
    (tmp_path / "outer.py").write_text(kernel)
    (tmp_path / "other.py").write_text("")
    before = cache_directory(tmp_path)
    (tmp_path / "other.py").write_text("a = 1\n")
    assert cache_directory(tmp_path) == before
    (tmp_path / "inner.py").write_text(f"{kernel}a = 1\n")
    assert cache_directory(tmp_path) != before
