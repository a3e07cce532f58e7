"""docs/author.md shows what somebody who writes a kernel sees: the session in it is that of `studies/author.py`."""

import author


def test_the_session_on_the_page_is_what_the_commands_say(project):
    log = author.session(project)
    text = author.PAGE.read_text()
    assert text.startswith(author.HEAD)
    shown = text.partition("```\n")[2].partition("```\n")[0]
    assert author.without_numbers(shown) == author.without_numbers(log)
    assert [line.split(";")[0] for line in log.splitlines() if line.startswith(("right;", "wrong;"))] == [
        "right",
        "right",
        "wrong",
    ]
    assert "it looks like this: the last 1 of K are left out\n" in log
    assert "since the last right try: " in log
