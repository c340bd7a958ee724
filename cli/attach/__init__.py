"""Attachments of a message: files, folders and pages behind `@`, the output of `!commands`. Begin with `attach`."""
