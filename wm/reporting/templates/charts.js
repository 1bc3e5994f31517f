// Draws each chart when it comes into view, as wide as there is room.
const drawChart = (figure) => {
  const spec = JSON.parse(figure.querySelector('script').textContent);
  const room = figure.clientWidth;
  const panels = spec.concat || [spec];
  const beside = Math.max(75, 6 * spec.usermeta.labels + 30);
  const wide = Math.max(...panels.map((panel) => panel.width)) + beside;
  spec.columns = Math.max(1, Math.min(spec.columns || 1, room / wide | 0));
  // Where one panel is wider than the page, panels shrink.
  for (const panel of panels)
    panel.width = Math.min(panel.width, Math.max(140, room - beside - 35));
  const mark = 7 * spec.usermeta.longest + 50;
  spec.config.legend.columns = Math.max(1, Math.min(6, room / mark | 0));
  vegaEmbed(figure.querySelector('div'), spec, {
    mode: 'vega-lite',
    renderer: 'svg',
    actions: {export: true, source: false, compiled: false, editor: false},
    downloadFileName: figure.querySelector('figcaption').textContent
      .slice(0, 60).replace(/[^\w]+/g, '_'),
  }).then(() => figure.setAttribute('data-drawn', room));
};
addEventListener('DOMContentLoaded', () => {
  const figures = [...document.querySelectorAll('figure.chart')];
  const seen = new IntersectionObserver((entries) => {
    for (const {isIntersecting, target} of entries)
      if (isIntersecting) {
        seen.unobserve(target);
        drawChart(target);
      }
  }, {rootMargin: '400px'});
  figures.forEach((figure) => seen.observe(figure));
  let later;
  addEventListener('resize', () => {
    clearTimeout(later);
    later = setTimeout(() => figures.filter((figure) => figure.dataset.drawn
      && figure.dataset.drawn != figure.clientWidth)
      .forEach(drawChart), 200);
  });
  addEventListener('beforeprint', () => figures.forEach(
    (figure) => figure.dataset.drawn || drawChart(figure)));
});
