"""No secret of an address in any text, and the same place whatever the secret is."""

from __future__ import annotations

import errno
import pickle
import traceback
from urllib.parse import quote

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from concord.schemas.errors import InputError, ServiceError, UsageError
from concord.schemas.secrets import masked_errors, place_of, redact

secret_text = st.text(st.sampled_from("aZ9~!$'()*,;:/@+%=-._é"), min_size=1, max_size=12).map(lambda s: f"S3CR{s}ET")
schemes = st.sampled_from(["s3", "S3", "https", "postgresql", "mysql+pymysql", "gs", "abfs", "redis"])


@given(schemes, secret_text, secret_text)
def test_user_and_password_are_masked_and_the_place_stays(scheme: str, secret: str, other: str) -> None:
    uri = f"{scheme}://user:{{}}@host:9000/db/x@y?region=eu&scheme=http"
    shown = redact(f"cannot open {uri.format(quote(secret, safe=''))}: no")
    assert "S3CR" not in shown
    assert shown.startswith("cannot open ")
    assert shown.endswith("***@host:9000/db/x@y?region=eu&scheme=http: no")
    assert redact(shown) == shown
    places = {place_of(uri.format(quote(s, safe=""))) for s in (secret, other)}
    kept = "user@" if scheme == "abfs" else ""
    assert places == {f"{scheme}://{kept}host:9000/db/x@y?region=eu&scheme=http"}


@given(schemes, secret_text)
def test_a_password_that_is_not_quoted_is_masked_too(scheme: str, secret: str) -> None:
    assume("@" not in secret)
    assert "S3CR" not in redact(f"Cannot parse URI: '{scheme}://KEY:{secret}@bucket/x'")
    assert "S3CR" not in redact(f"{scheme}:/KEY:{secret}@bucket/x is not there")


@given(
    st.sampled_from(
        ["token", "sig", "sas", "X-Amz-Signature", "X-Amz-Security-Token", "secret_key", "AWSAccessKeyId", "password"]
    ),
    secret_text,
    secret_text,
)
def test_secrets_of_the_query_are_masked(name: str, secret: str, other: str) -> None:
    uri = f"https://host/x?a=1&{name}={{}}&b=2"
    shown = redact(f"GET {uri.format(quote(secret, safe=''))} failed")
    assert shown == f"GET https://host/x?a=1&{name}=***&b=2 failed"
    assert {place_of(uri.format(quote(s, safe=""))) for s in (secret, other)} == {"https://host/x?a=1&b=2"}


def test_every_address_of_a_text_is_masked() -> None:
    text = "from postgresql://u:p1@a/b to https://tok2@c/d, then s3://k:p3@e?token=t4"
    assert redact(text) == "from postgresql://***@a/b to https://***@c/d, then s3://***@e?token=***"


@pytest.mark.parametrize(
    "text",
    [
        "models:/news@champion",
        "models:/news/3",
        "sqlite:////data/mlflow.db",
        "http://127.0.0.1:5000/api?key",
        "http://localhost:4200/@me",
        "s3://bucket/corpus?region=eu&endpoint_override=localhost:9000",
        "abfs://container@account.dfs.core.windows.net/corpus",
        "/home/me/a@b:c/corpus",
        "write to ada@example.org: no secret",
        "ratio 3:1@home",
    ],
)
def test_text_without_a_secret_stays(text: str) -> None:
    assert redact(text) == text
    assert place_of(text) == text


def test_the_place_is_one_with_a_key_and_without() -> None:
    bare = "s3://bucket/corpus"
    assert {place_of(u) for u in (bare, "s3://K:S@bucket/corpus", "s3://bucket/corpus?secret_key=S")} == {bare}
    assert place_of("abfs://box:KEY@account/x") == "abfs://box@account/x"
    assert place_of("abfs://other@account/x") != place_of("abfs://box@account/x")


@pytest.mark.parametrize("kind", [UsageError, InputError, ServiceError])
def test_errors_mask_what_they_say(kind: type[Exception]) -> None:
    error = kind("s3://KEY:S3CRET@bucket: cannot be opened")
    assert str(error) == "s3://***@bucket: cannot be opened"
    assert "S3CRET" not in repr(error)
    assert str(pickle.loads(pickle.dumps(error))) == str(error)


def printed(error: BaseException) -> str:
    """All that a traceback says, as Prefect's log and the terminal do."""
    return "".join(traceback.format_exception(error))


# A traceback shows lines of source, so none of those below holds the secret itself.
ADDRESS = "s3:/KEY:S3CRET@bucket"


def fail_because_of(cause: Exception, error: Exception) -> None:
    try:
        raise cause
    except type(cause) as raised:
        raise error from raised


def test_errors_leave_a_block_without_secrets_in_them_or_in_what_led_to_them() -> None:
    cause, error = ValueError(f"Cannot parse URI: {ADDRESS}"), InputError(f"{ADDRESS}: cannot be opened")
    with pytest.raises(InputError) as left, masked_errors():
        fail_because_of(cause, error)
    said = printed(left.value)
    assert "Cannot parse URI: s3:/***@bucket" in said
    assert "S3CRET" not in said


def test_a_masked_error_of_the_system_is_still_one_of_the_system() -> None:
    with pytest.raises(FileNotFoundError) as left, masked_errors():
        raise FileNotFoundError(2, "No such file", ADDRESS)
    assert left.value.errno == 2
    assert "S3CRET" not in printed(left.value)
    with pytest.raises(RuntimeError, match=r"KeyError: 's3:/\*\*\*@bucket'") as bug, masked_errors():
        raise KeyError(ADDRESS)
    assert "S3CRET" not in printed(bug.value)


def test_a_masked_error_of_the_system_keeps_its_number_where_it_names_no_file() -> None:
    """The number decides on the exit code: a full disk is no bug."""
    with pytest.raises(OSError, match=r"s3:/\*\*\*@bucket") as left, masked_errors():
        raise OSError(errno.ENOSPC, f"no space left for {ADDRESS}")
    assert left.value.errno == errno.ENOSPC
    assert "S3CRET" not in printed(left.value)
    with pytest.raises(OSError, match=r"s3:/\*\*\*@bucket") as wordy, masked_errors():
        raise OSError(f"no answer from {ADDRESS}")
    assert wordy.value.errno is None


def test_an_error_without_a_secret_leaves_a_block_as_it_is() -> None:
    error = KeyError("plain")
    with pytest.raises(KeyError) as left, masked_errors():
        raise error
    assert left.value is error
