// Browsers do not let a page from disk load the index of the search.
if (location.protocol === "file:") {
  document.querySelector(".md-search__input").placeholder = "Needs a server";
  document.querySelector(".md-search-result__meta").textContent =
    "To search, run python -m http.server -d site and open http://localhost:8000";
}
