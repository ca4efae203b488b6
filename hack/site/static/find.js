// Search without a server: search.js has the text of all pages, and is read once somebody searches.
(() => {
  const root = new URL(".", document.currentScript.src);
  const box = document.getElementById("search");
  const found = document.getElementById("found");

  const load = () => {
    if (document.getElementById("pages")) return;
    const script = document.createElement("script");
    script.id = "pages";
    script.src = new URL("search.js", root);
    script.onload = show;
    document.head.append(script);
  };

  // A word in the title counts more than one in a heading, and that more than one in the text. A page lacks no word.
  const score = (page, words) => {
    const has = (text, word) => text.toLowerCase().includes(word);
    let sum = 0;
    for (const word of words) {
      const points = (has(page.title, word) ? 20 : 0) + (page.headings.some((h) => has(h, word)) ? 5 : 0) + (has(page.text, word) ? 1 : 0);
      if (points === 0) return 0;
      sum += points;
    }
    return sum;
  };

  const around = (page, word) => {
    const at = page.text.toLowerCase().indexOf(word);
    return at < 0 ? page.text.slice(0, 120) : "…" + page.text.slice(Math.max(0, at - 50), at + 90) + "…";
  };

  const show = () => {
    const words = box.value.toLowerCase().split(/\s+/).filter(Boolean);
    const results = (window.pages || [])
      .map((page) => ({ page, points: words.length ? score(page, words) : 0 }))
      .filter((result) => result.points > 0)
      .sort((a, b) => b.points - a.points)
      .slice(0, 12);
    found.replaceChildren(
      ...results.map(({ page }) => {
        const item = document.createElement("li");
        const link = document.createElement("a");
        link.href = new URL(page.url, root);
        link.textContent = page.title;
        const text = document.createElement("span");
        text.textContent = around(page, words[0]);
        link.append(text);
        item.append(link);
        return item;
      }),
    );
    if (words.length && window.pages && !results.length) {
      const item = document.createElement("li");
      item.textContent = "No page has all of these words.";
      found.append(item);
    }
    found.hidden = words.length === 0;
  };

  box.addEventListener("focus", load);
  box.addEventListener("input", show);
  box.addEventListener("keydown", (event) => {
    if (event.key === "Enter") found.querySelector("a")?.click();
    if (event.key === "Escape") {
      box.value = "";
      show();
    }
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === "/" && document.activeElement !== box) {
      event.preventDefault();
      box.focus();
    }
  });
  document.querySelector("nav [aria-current]")?.scrollIntoView({ block: "center" });
})();
