from jade.launch.pace import Pace


def test_no_trial_is_begun_that_would_be_cut_short():
    pace = Pace(100.0, 10.0)
    assert pace.start(0.0) == 90.0
    assert not pace.is_late(80.0)
    for seconds in (20.0, 30.0, 900.0):
        pace.add(seconds)
    assert pace.expected_s == 30.0
    assert not pace.is_late(59.0)
    assert pace.is_late(61.0)
    assert pace.describe(61.0) == "The time left (0:29) is shorter than a trial takes (0:30)."


def test_trial_that_fits_nowhere_is_begun_all_the_same():
    pace = Pace(100.0, 10.0)
    pace.start(0.0)
    pace.add(91.0)
    assert not pace.is_late(0.0)
    assert not pace.is_late(89.0)


def test_without_a_limit_there_is_always_time():
    pace = Pace(None, 0.0)
    assert pace.start(5.0) is None
    pace.add(1e9)
    assert not pace.is_late(1e9)
