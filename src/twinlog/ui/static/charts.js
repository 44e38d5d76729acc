/* Draws the charts of a flow from its points, and adds new points after each reading; or the last day by its reports. */
(() => {
  "use strict";
  const box = document.querySelector(".charts[data-points]");
  if (!box || !window.uPlot) return;
  const page = document.documentElement;
  const HOUR_S = 3600, LEAST_S = 300, HEIGHT = 160;
  let points = null, charts = [];
  let day = null;  /* The points of the last day, while they are shown. */

  const color = (name) => getComputedStyle(page).getPropertyValue(name).trim();
  const short = (value) => value >= 1e9 ? `${+(value / 1e9).toPrecision(3)} G`
    : value >= 1e6 ? `${+(value / 1e6).toPrecision(3)} M`
    : value >= 1e3 ? `${+(value / 1e3).toPrecision(3)} k` : `${+value.toPrecision(3)}`;
  /* By itself uPlot shows a single point in a scale of years. */
  const span = (plot) => {
    const at = plot.data[0];
    const end = at.length ? at[at.length - 1] : Date.now() / 1000;
    return [Math.min(at.length ? at[0] : end, end - LEAST_S), end];
  };
  const clock = (seconds) => new Date(seconds * 1000).toISOString().slice(11, 16);
  const width = (element) => Math.max(200, Math.floor(element.getBoundingClientRect().width));

  const columns = (element) => { const shown = day || points; return [shown.at_s, shown[element.dataset.series]]; };

  function draw() {
    for (const one of charts) one.plot.destroy();
    charts = [...box.querySelectorAll(".chart")].map((element) => {
      const axis = { stroke: color("--dim"), grid: { stroke: color("--line") }, ticks: { stroke: color("--line") } };
      const plot = new window.uPlot({
        width: width(element),
        height: HEIGHT,
        legend: { show: false },
        cursor: { show: false },
        tzDate: (seconds) => window.uPlot.tzDate(new Date(seconds * 1000), "Etc/UTC"),
        scales: { x: { range: span }, y: { range: (_, low, high) => [0, high > 0 ? high * 1.1 : 1] } },
        axes: [{ ...axis, values: (_, seconds) => seconds.map(clock) }, { ...axis, size: 64, values: (_, values) => values.map(short) }],
        series: [{}, { stroke: color("--accent"), width: 2, fill: color("--soft"), spanGaps: false }],
      }, columns(element), element);
      return { plot, element };
    });
  }

  async function load() {
    const last = points && points.at_s.length ? Math.floor(points.at_s[points.at_s.length - 1] * 1000) : 0;
    const answer = await fetch(`${box.dataset.points}&since=${last}`, { headers: { "X-Live": "1" } });
    if (!answer.ok) return;
    const news = await answer.json();
    if (!points) {
      points = news;
      if (!day) draw();
      return;
    }
    const from = (news.at_s.length ? news.at_s[news.at_s.length - 1] : Date.now() / 1000) - HOUR_S;
    const joined = points.at_s.concat(news.at_s);
    let begin = joined.findIndex((at) => at >= from);
    if (begin < 0) begin = joined.length;
    for (const name of Object.keys(news)) {
      if (Array.isArray(news[name])) points[name] = points[name].concat(news[name]).slice(begin);
    }
    if (!day) for (const one of charts) one.plot.setData(columns(one.element));
  }

  let loading = false;
  async function follow() {
    if (loading) return;
    loading = true;
    try { await load(); } catch { /* The next reading tries again. */ } finally { loading = false; }
  }

  page.addEventListener("twinlog:reading", follow);
  page.addEventListener("twinlog:theme", () => { if (day || points) draw(); });

  const button = document.getElementById("day"), note = document.getElementById("charts-note");
  const title = document.getElementById("charts-title");
  const hourNote = note.textContent, hourTitle = title.textContent;
  const TRIES = 60, PAUSE_MS = 1000;

  async function ask() {
    for (let tries = 0; tries < TRIES; tries++) {
      const answer = await fetch(box.dataset.history);
      if (!answer.ok) return { trouble: `the console answers ${answer.status}` };
      const found = await answer.json();
      if (!found.reading) return found;
      await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
    }
    return { trouble: "the reading takes too long" };
  }

  async function showDay() {
    button.disabled = true;
    note.textContent = "The reports are being read.";
    let found;
    try { found = await ask(); } catch { found = { trouble: "the connection to the console is lost" }; }
    button.disabled = false;
    note.textContent = found.trouble ? `The reports are unknown: ${found.trouble}` : found.note;
    if (found.trouble || !found.at_s.length) return;
    day = found;
    title.textContent = button.textContent;
    button.setAttribute("aria-pressed", "true");
    draw();
  }

  function showHour() {
    day = null;
    title.textContent = hourTitle;
    note.textContent = hourNote;
    button.setAttribute("aria-pressed", "false");
    if (points) draw();
  }

  button.hidden = false;
  button.addEventListener("click", () => { if (day) showHour(); else showDay(); });
  let timer;
  addEventListener("resize", () => {
    clearTimeout(timer);
    timer = setTimeout(() => {
      for (const one of charts) one.plot.setSize({ width: width(one.element), height: HEIGHT });
    }, 200);
  });
  follow();
})();
