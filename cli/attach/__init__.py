"""What goes along with a message: files, folders and pages behind `@`, the output of `!commands`.

Begin with `attach`; `pending` holds what waits for the chat's next message.
"""
