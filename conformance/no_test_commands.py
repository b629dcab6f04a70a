"""pytest plugin: adds the parameter `enableTestCommands` to the replies of servers without it.

Otherwise PyMongo's suite runs no test against servers other than MongoDB itself.
"""

import pymongo.asynchronous.database
import pymongo.synchronous.database

PARAMETER = "enableTestCommands"


def pytest_configure():
    for database in (
        pymongo.synchronous.database.Database,
        pymongo.asynchronous.database.AsyncDatabase,
    ):
        answer(database)


def answer(database):
    command = database.command
    if database.__name__.startswith("Async"):

        async def answering(self, asked, *arguments, **options):
            return filled(asked, await command(self, asked, *arguments, **options))
    else:

        def answering(self, asked, *arguments, **options):
            return filled(asked, command(self, asked, *arguments, **options))

    database.command = answering


def filled(asked, answered):
    if asked == "getParameter":
        answered.setdefault(PARAMETER, False)
    return answered
