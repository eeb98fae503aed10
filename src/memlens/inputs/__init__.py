"""From bytes to events: blocks of lines, line formats as data, decoders."""
