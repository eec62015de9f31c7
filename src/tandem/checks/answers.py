"""What a ``tandem-host`` command printed, as findings of the host that printed it."""

from __future__ import annotations

import json
from collections.abc import Iterable

from tandem.checks.findings import Finding, errors, render


def answered_findings(answer: str) -> list[Finding]:
    """The findings in a JSON document of the host tool; none where the text is no such document."""
    try:
        return [
            Finding(
                level=str(item["level"]),
                code=str(item["code"]),
                message=str(item["message"]),
                fix=str(item["fix"]),
            )
            for item in json.loads(answer)["findings"]
        ]
    except (ValueError, KeyError, TypeError):
        return []


def of_host(findings: Iterable[Finding], host: str) -> list[Finding]:
    """The same findings with messages that begin with the host's inventory name, once."""
    return [
        Finding(
            level=item["level"],
            code=item["code"],
            message=f"{host}: {item['message'].removeprefix(f'{host}: ')}",
            fix=item["fix"],
        )
        for item in findings
    ]


def findings_text(answer: str, host: str, stderr: str = "") -> str:
    """The errors of a ``tandem-host`` answer as text, each with its host.

    What is not a JSON document with errors is shown as it is: the last lines of both streams.
    """
    text = render(of_host(errors(answered_findings(answer)), host))
    if text:
        return text
    tail = [*answer.strip().splitlines()[-3:], *stderr.strip().splitlines()[-5:]]
    return f"{host}: {'; '.join(tail) or 'tandem-host gave no answer'}"
