"""Helpers that the tests of the openai package share: a client of the shared router, and its requests."""

import openai
import pytest
from conftest import SCRIPTED
from features import feature

ASK = [{"role": "user", "content": "Who comes here?"}]


def case(*names):
    return feature("openai", *names)


@pytest.fixture
def client(base_url):
    with openai.OpenAI(base_url=base_url, api_key="none", max_retries=0) as client:
        yield client


def scripted(question):
    return {"model": SCRIPTED, "messages": [{"role": "user", "content": question}]}
