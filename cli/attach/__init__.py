"""Attachments of a message (`attach`): files, folders and pages behind `@`, the output of `!commands` (`pending`)."""
