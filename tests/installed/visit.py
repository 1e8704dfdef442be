"""A visitor of an installed site, for install.sh.

visit.py link FILE       follows the login link that `serve` printed into the file: once, and not a second time
visit.py stranger URL    is led to the login, and reads nothing
visit.py run URL         starts a run with the token, and waits until it has ended with figures
"""

import json
import sys
import time
import urllib.error
import urllib.request

SOON_S = 60


class Stay(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_):
        return None


def ask(url, body=None, headers=()):
    """Status, headers and text of an answer; waits until somebody listens."""
    data = None if body is None else json.dumps(body).encode()
    asked = urllib.request.Request(url, data=data, headers={"Content-Type": "application/json", **dict(headers)})
    until = time.monotonic() + SOON_S
    while True:
        try:
            with urllib.request.build_opener(Stay).open(asked, timeout=SOON_S) as answer:
                return answer.status, answer.headers, answer.read().decode()
        except urllib.error.HTTPError as answer:
            return answer.code, answer.headers, answer.read().decode()
        except urllib.error.URLError:
            if time.monotonic() > until:
                raise
            time.sleep(0.1)


def link(file):
    until = time.monotonic() + SOON_S
    while not (lines := [line.split()[-1] for line in open(file) if "/login?link=" in line]):
        assert time.monotonic() < until, open(file).read()
        time.sleep(0.1)
    status, headers, _ = ask(lines[0])
    assert status == 303 and "pipebench=" in headers["Set-Cookie"], (status, headers)
    status, headers, _ = ask(lines[0])
    assert status == 401 and "Set-Cookie" not in headers, (status, headers)


def stranger(url):
    status, headers, text = ask(url)
    assert status == 303 and headers["Location"].endswith("/login") and "this machine" not in text, (status, headers, text)
    status, _, text = ask(url + "api/v1/runs")
    assert status == 401, (status, text)


def run(url):
    status, _, text = ask(url + "/login")
    assert status == 200 and "Log in" in text, (status, text)
    token = [("Authorization", "Bearer " + open("/var/lib/pipebench/token").read().strip())]
    status, headers, text = ask(url + "/api/v1/runs", {"group": "this machine", "time": "1s"}, token)
    assert status == 201, (status, text)
    state = url + "/api/v1/runs/" + json.loads(text)["name"]
    until = time.monotonic() + 2 * SOON_S
    while (now := json.loads(ask(state, headers=token)[2]))["state"] != "ended":
        assert time.monotonic() < until and now["state"] in ("queued", "running"), now
        time.sleep(0.5)
    assert now["exit_code"] == 0 and now["has_record"], now


{"link": link, "stranger": stranger, "run": run}[sys.argv[1]](sys.argv[2])
