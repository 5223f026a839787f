"""A command line that a test starts from: what the test adds takes the place of what is there, since an option is given once."""


def last_of_each(words):
    """The same words, each option with its last value only."""
    words, kept, at = [str(word) for word in words], {}, 0
    while at < len(words):
        has_value = words[at].startswith("--") and at + 1 < len(words)
        end = at + 1 + (has_value and not words[at + 1].startswith("--"))
        name = words[at] if words[at].startswith("--") else f"word {at}"
        kept.pop(name, None)
        kept[name] = words[at:end]
        at = end
    return [word for found in kept.values() for word in found]
