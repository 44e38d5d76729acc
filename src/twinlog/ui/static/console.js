/* Keeps the block `live` of a page up to date, and switches the theme. Every page works without this script. */
(() => {
  "use strict";
  const page = document.documentElement;

  const button = document.getElementById("theme");
  const isDark = () => page.dataset.theme
    ? page.dataset.theme === "dark"
    : matchMedia("(prefers-color-scheme: dark)").matches;
  const show = () => button.setAttribute("aria-pressed", String(isDark()));
  if (button) {
    button.hidden = false;
    show();
    button.addEventListener("click", () => {
      page.dataset.theme = isDark() ? "light" : "dark";
      try { localStorage.setItem("twinlog-theme", page.dataset.theme); } catch { /* Storage is off. */ }
      show();
      page.dispatchEvent(new CustomEvent("twinlog:theme"));
    });
  }

  const stale = document.getElementById("stale");
  const url = document.body.dataset.live;
  if (!url || !window.EventSource) return;
  let busy = false, again = false;

  async function refresh() {
    if (document.hidden) { again = true; return; }
    if (busy) { again = true; return; }
    busy = true;
    again = false;
    try {
      if (document.getElementById("live") && window.htmx) {
        await window.htmx.ajax("GET", location.pathname + location.search,
          { target: "#live", swap: "innerMorph", headers: { "X-Live": "1", "HX-Target": "div#live" } });
      }
      page.dispatchEvent(new CustomEvent("twinlog:reading"));
    } catch { /* The next event tries again. */ } finally {
      busy = false;
      if (again && !document.hidden) setTimeout(refresh, 1000);
    }
  }

  document.addEventListener("visibilitychange", () => { if (!document.hidden && again) refresh(); });

  let source;
  function connect() {
    source = new EventSource(url);
    source.addEventListener("reading", () => {
      stale.textContent = "";
      refresh();
    });
    source.addEventListener("ended", () => { source.close(); location.reload(); });
    source.addEventListener("error", () => {
      stale.textContent = "The connection to the console is lost: the figures are those of the last reading.";
      if (source.readyState === EventSource.CLOSED) setTimeout(connect, 15000);
    });
  }
  connect();
  addEventListener("pagehide", () => source.close());
  addEventListener("pageshow", (event) => { if (event.persisted) connect(); });
})();
