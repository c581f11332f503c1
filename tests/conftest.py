"""For all tests."""

import pytest


@pytest.fixture(autouse=True, scope="session")
def no_tuning_of_the_users_own(tmp_path_factory: pytest.TempPathFactory):
    """`auto` goes by the shipped rule, and `pycomm tune` writes nothing that outlives the tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYCOMM_TUNING", str(tmp_path_factory.mktemp("tuning") / "tuning.json"))
        yield
