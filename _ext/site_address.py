"""Give the site its own address, once the course has one.

The one address anybody writes down is that of the repository, in ``_config.yml``. From it follows
where the site is served (GitHub's pages, unless ``html: baseurl`` says otherwise), and from that
the canonical links, the sitemap, the cards shown when a link is shared, and the links of the page
for a wrong address. While the address is still a placeholder there is nothing true to say, so
none of these are made.
"""

from urllib.parse import urlsplit

PLACEHOLDER = "OWNER"


def of(repository):
    """Return where GitHub serves the site of a repository, ending in /; "" for the placeholder."""
    owner, name = urlsplit(repository).path.strip("/").split("/")
    if owner == PLACEHOLDER:
        return ""
    host = f"{owner.lower()}.github.io"
    return f"https://{host}/" if name.lower() == host else f"https://{host}/{name}/"


def setup(app):
    """Set what follows from the address, before the other extensions read it."""
    config = app.config
    address = config.html_baseurl or of(config.html_theme_options["repository_url"])
    config.notfound_urls_prefix = urlsplit(address).path or "/"
    if address:
        config.html_baseurl = config.ogp_site_url = address
        config.ogp_image = f"{address}_static/social-card.png"
        config.ogp_image_alt = "One Equation, Many Programs: multi-head attention, proven"
        config.ogp_custom_meta_tags = ['<meta name="twitter:card" content="summary_large_image" />']
        config.sitemap_url_scheme = "{link}"
        config.sitemap_excludes = ["404.html", "genindex.html", "search.html"]
        app.setup_extension("sphinxext.opengraph")
        app.setup_extension("sphinx_sitemap")
    return {"parallel_read_safe": True, "parallel_write_safe": True}
