"""For all tests."""

import signal

import pytest


@pytest.fixture(autouse=True, scope="session")
def no_tuning_of_the_users_own(tmp_path_factory: pytest.TempPathFactory):
    """`auto` goes by the shipped rule, and `pycomm tune` writes nothing that outlives the tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYCOMM_TUNING", str(tmp_path_factory.mktemp("tuning") / "tuning.json"))
        yield


@pytest.fixture(autouse=True, scope="session")
def interrupts_arrive():
    """Also where the tests run in the background of a script, whose commands are started deaf to them."""
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
