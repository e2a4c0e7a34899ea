"""The dashboard: static files for a browser, which asks the HTTP API for everything it shows.

``index.html`` with its styles and ES modules, served as they are (``broker.api.routes.dashboard``). There
is no build step, nothing comes from elsewhere, nothing secret is in them: the API key is typed in and kept in
the browser's session storage. A view is a module with ``title`` and ``mount(root, federation, about)``, which
gives ``about`` (another cloud is chosen) and ``end``; its address is its name after the ``#``.
"""
