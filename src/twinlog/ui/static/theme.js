/* Before the first paint: the theme that the user chose here before. Without a choice the system's theme counts. */
(() => {
  "use strict";
  try {
    const chosen = localStorage.getItem("twinlog-theme");
    if (chosen === "dark" || chosen === "light") document.documentElement.dataset.theme = chosen;
  } catch { /* Storage is off. */ }
})();
