"""Places outside the home: the message about an unusable address never shows a password."""

import pytest

from kgcore.errors import InputError, masked
from tasks.tracking.connection import check_database


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("postgresql://me:pw@host:5432/db", "postgresql://me:***@host:5432/db"),
        ("postgresql+asyncpg://me:p/w@x@host/db", "postgresql+asyncpg://me:***@host/db"),
        ("postgresql://me:two words@host/db", "postgresql://me:***@host/db"),
        ("cannot reach 'https://me:pw@host/api'", "cannot reach 'https://me:***@host/api'"),
        ("mysql://host/db?user=me&password=pw&ssl=1", "mysql://host/db?user=me&password=***&ssl=1"),
        ("sqlite:////home/me/mlflow.db", "sqlite:////home/me/mlflow.db"),
        ("http://127.0.0.1:5000/api", "http://127.0.0.1:5000/api"),
        ("s3://bucket/path", "s3://bucket/path"),
    ],
)
def test_a_password_in_an_address_is_masked(text: str, shown: str) -> None:
    assert masked(text) == shown


@pytest.mark.parametrize(
    ("scheme", "place", "reason"),
    [
        ("postgresql+asyncpg", "127.0.0.1:9", "postgresql+asyncpg is an asynchronous driver"),
        ("postgresql+oracle", "127.0.0.1:9", "Can't load plugin"),
        ("postgresql", "127.0.0.1:port", "invalid literal"),
        ("postgresql", "127.0.0.1:9", "Connection refused"),
        ("mysql", "127.0.0.1:9", "No module named 'MySQLdb'"),
    ],
)
def test_an_unusable_database_is_reported_at_once(scheme: str, place: str, reason: str) -> None:
    with pytest.raises(InputError) as raised:
        check_database(f"{scheme}://me:geheim@{place}/db", "the store")
    assert str(raised.value).startswith(f"the store {scheme}://me:***@{place}/db cannot be opened: ")
    assert reason in str(raised.value)
    assert "geheim" not in str(raised.value)
