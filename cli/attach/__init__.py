"""Attachments of a message: files, folders and pages behind `@`, the output of `!commands`.

Begin with `attach`; `pending` holds those of the chat's next message.
"""
