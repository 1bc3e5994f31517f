// Tables sort by a head, filter by text, and copy as CSV, Markdown or LaTeX.
const cellsOf = (row) => [...row.cells].map((cell) =>
  [...cell.childNodes].map((node) => node.textContent.trim())
    .filter(Boolean).join(' '));
const shownRows = (table) => [...table.tBodies[0].rows]
  .filter((row) => !row.hidden).map(cellsOf);
const headsOf = (table) => [...table.tHead.rows[0].cells]
  .map((cell) => cell.textContent.trim());
const quoted = (text) => /[",\n]/.test(text)
  ? `"${text.replaceAll('"', '""')}"` : text;
const LATEX = {'\\': '\\textbackslash{}', '~': '\\textasciitilde{}',
  '^': '\\textasciicircum{}', '–': '--', '→': '$\\to$', '±': '$\\pm$',
  '≤': '$\\leq$', '≥': '$\\geq$', '−': '$-$', '×': '$\\times$', '…': '\\dots{}'};
const latex = (text) => text.replace(/[\\~^–→±≤≥−×…&%$#_{}]/g,
  (sign) => LATEX[sign] || `\\${sign}`);
// A sheet computes a cell that begins with one of these signs.
const inert = (text) => /^[=@\t]|^[+-](?![\d.])/.test(text) ? `'${text}` : text;
const piped = (cells) =>
  `| ${cells.map((text) => text.replace(/[\\|]/g, '\\$&')).join(' | ')} |`;
const FORMATS = {
  CSV: (heads, rows) => [heads, ...rows]
    .map((cells) => cells.map((text) => quoted(inert(text))).join(',')),
  Markdown: (heads, rows) =>
    [piped(heads), '|' + ' --- |'.repeat(heads.length), ...rows.map(piped)],
  LaTeX: (heads, rows) => {
    const line = (cells) => `${cells.map(latex).join(' & ')} \\\\`;
    return [`\\begin{tabular}{${'l'.repeat(heads.length)}}`, '\\toprule',
      line(heads), '\\midrule', ...rows.map(line), '\\bottomrule',
      '\\end{tabular}'];
  },
};
const copyText = (text) => {
  const old = () => {  // Where a page from a file may not use the clipboard.
    const area = document.body.appendChild(document.createElement('textarea'));
    area.value = text;
    area.select();
    document.execCommand('copy');
    area.remove();
  };
  return navigator.clipboard
    ? navigator.clipboard.writeText(text).catch(old) : Promise.resolve(old());
};
const sortBy = (table, column, head) => {
  const down = head.getAttribute('aria-sort') === 'ascending';
  const key = (row) => cellsOf(row)[column] || '';
  const number = (text) => parseFloat(text.replaceAll(',', ''));
  const order = (a, b) => {
    const [x, y] = [number(a), number(b)];
    if (isNaN(x) !== isNaN(y)) return isNaN(x) ? 1 : -1;  // Dashes come last.
    return (down ? -1 : 1) * (isNaN(x) ? a.localeCompare(b) : x - y);
  };
  const rows = [...table.tBodies[0].rows]
    .map((row) => [key(row), row]).sort(([a], [b]) => order(a, b));
  table.tBodies[0].append(...rows.map(([, row]) => row));
  head.parentElement.querySelectorAll('[aria-sort]')
    .forEach((other) => other.removeAttribute('aria-sort'));
  head.setAttribute('aria-sort', down ? 'descending' : 'ascending');
};
const equip = (table) => {
  const bar = document.createElement('div');
  bar.className = 'tools';
  const rows = [...table.tBodies[0].rows];
  const filter = Object.assign(document.createElement('input'),
    {type: 'search', placeholder: 'Filter rows', ariaLabel: 'Filter rows'});
  filter.oninput = () => rows.forEach((row) => {
    row.hidden = !row.textContent.toLowerCase()
      .includes(filter.value.toLowerCase());
  });
  if (rows.length > 2) bar.append(filter);
  bar.append('Copy:', ...Object.entries(FORMATS).map(([name, format]) => {
    const button = document.createElement('button');
    button.textContent = name;
    button.onclick = () => copyText(
      format(headsOf(table), shownRows(table)).join('\n') + '\n').then(() => {
      button.textContent = 'copied';
      setTimeout(() => { button.textContent = name; }, 1200);
    });
    return button;
  }));
  table.parentElement.before(bar);
  [...table.tHead.rows[0].cells].forEach((head, column) => {
    head.tabIndex = 0;
    head.onclick = () => sortBy(table, column, head);
    head.onkeydown = ({key}) => key === 'Enter' && head.onclick();
  });
};
addEventListener('DOMContentLoaded', () =>
  document.querySelectorAll('table.data').forEach(equip));
