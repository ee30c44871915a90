"""The features that clients are tested with, and how a test names its cell of the matrix."""

import pytest

CLIENTS = ["openai", "anthropic", "langchain-openai", "litellm", "guidellm", "schemathesis", "claude-code", "codex", "aider"]
FEATURES = [
    "chat",
    "streaming",
    "async",
    "cached tokens",
    "several choices",
    "log probabilities",
    "completions",
    "models",
    "token counts",
    "raw responses",
    "errors",
    "retries",
    "tool calls",
    "forced tool calls",
    "structured output",
    "reasoning",
    "responses",
    "load",
    "the document",
    "whole sessions",
    "all tools",
]

# Cells without a test, and why.
NO_CALL = "its API has no such call"
REASONS = {
    ("anthropic", "several choices"): NO_CALL,
    ("anthropic", "log probabilities"): NO_CALL,
    ("anthropic", "completions"): NO_CALL,
    ("anthropic", "models"): "its shape of a model is another one",
    ("anthropic", "responses"): NO_CALL,
    ("anthropic", "structured output"): "by tools",
    ("openai", "token counts"): "only of responses, which are counted by no model here",
    ("langchain-openai", "completions"): "as openai's",
    ("langchain-openai", "several choices"): "as openai's",
    ("langchain-openai", "models"): NO_CALL,
    ("langchain-openai", "token counts"): "counts with OpenAI's own tokenizers",
    ("langchain-openai", "raw responses"): "as openai's",
    ("langchain-openai", "retries"): "as openai's",
    ("langchain-openai", "reasoning"): "reads no reasoning_content",
    ("litellm", "completions"): "as openai's",
    ("litellm", "models"): NO_CALL,
    ("litellm", "token counts"): "counts with tokenizers of its own",
    ("litellm", "raw responses"): NO_CALL,
    ("litellm", "several choices"): "as openai's",
    ("litellm", "log probabilities"): "as openai's",
}
# Only the named features of these clients are tested; the others do not apply to them.
ONLY = {
    "guidellm": ["load", "cached tokens"],
    "schemathesis": ["the document", "errors"],
    "claude-code": ["whole sessions", "all tools", "tool calls", "cached tokens"],
    "codex": ["whole sessions", "all tools", "tool calls", "cached tokens"],
    "aider": ["whole sessions", "cached tokens"],
}
# Packages under another name than the client's.
PACKAGES = {"claude-code": "claude-agent-sdk", "codex": "openai-codex-cli-bin", "aider": "aider-chat"}


def feature(client, *names):
    """Marks a test as belonging to these cells."""
    assert client in CLIENTS and set(names) <= set(FEATURES), (client, names)
    return pytest.mark.feature(client=client, names=names)
