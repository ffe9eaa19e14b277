"""Say how long something took and how long ago it was, as people say it."""

MINUTE_S, HOUR_S, DAY_S = 60, 3600, 86400


def render_duration(seconds: float) -> str:
    """Render a duration as a clock shows it, days apart."""
    minutes, second = divmod(int(seconds), MINUTE_S)
    hours, minute = divmod(minutes, 60)
    days, hour = divmod(hours, 24)
    if days:
        return f"{days}d {hour}h"
    return f"{hour}:{minute:02d}:{second:02d}" if hour else f"{minute}:{second:02d}"


def render_age(seconds: float) -> str:
    """Render how long ago something was, in the largest unit of which it fills at least one."""
    # Clocks of two machines differ: what lies a little ahead is now.
    if seconds < 1:
        return "just now"
    for unit_s, name in ((DAY_S, "days"), (HOUR_S, "h"), (MINUTE_S, "min")):
        count = int(seconds // unit_s)
        if count:
            return f"{count} {'day' if name == 'days' and count == 1 else name} ago"
    return f"{int(seconds)} s ago"
