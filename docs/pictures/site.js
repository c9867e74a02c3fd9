// Browsers do not let a page from disk load the index of the search, so the theme hides it.
if (location.protocol === "file:") {
  const note = document.createElement("small");
  note.className = "site-search";
  note.textContent = "To search, run python -m http.server -d site and open localhost:8000";
  document.querySelector(".md-header__inner").append(note);
}
