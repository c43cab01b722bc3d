'use strict';
// Draws the page from its data. All text of the data is set as text, never as markup.
const data = JSON.parse(document.getElementById('data').textContent);
const runs = data.runs;
const settings = {axis: 'step', smoothing: 0, logarithmic: false};
const charts = [];

const PHASES = ['input', 'wait', 'communication', 'compute', 'update'];
const STALLS = [
  ['input', 'waiting for input', 'brigade data stats with the same flags names the bottleneck'],
  ['wait', 'waiting for slower replicas', 'a slow device, cores shared with others, or batches of unequal cost'],
  ['communication', 'communication', 'larger batches, --accumulate, or fewer bytes for each step'],
  ['outside', 'outside of steps: checkpoints, evaluations, reports', 'a longer --save-every, --eval-every or --summaries-every'],
];

// ---- small helpers ----

function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

function drawn(tag, attributes, text) {
  const made = document.createElementNS('http://www.w3.org/2000/svg', tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  if (text !== undefined) made.textContent = text;
  return made;
}

const number = new Intl.NumberFormat('en-US', {maximumSignificantDigits: 4});
const compact = new Intl.NumberFormat('en-US', {notation: 'compact', maximumSignificantDigits: 3});

function plain(value) {
  if (value === null || !Number.isFinite(value)) return '–';
  if (value !== 0 && Math.abs(value) < 1e-3) return value.toExponential(2).replace('.00e', 'e');
  return Math.abs(value) >= 1e5 ? compact.format(value) : number.format(value);
}
const whole = value => Math.round(value).toLocaleString('en-US');
const percent = value => value === null ? '–' : plain(Math.round(value * 1000) / 10) + ' %';
function bytes(value) {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'];
  let unit = 0;
  for (; value >= 1024 && unit < units.length - 1; ++unit) value /= 1024;
  return number.format(Number(value.toPrecision(3))) + ' ' + units[unit];
}
function duration(seconds) {
  if (seconds < 1) return whole(seconds * 1000) + ' ms';
  if (seconds < 120) return number.format(Number(seconds.toPrecision(3))) + ' s';
  if (seconds < 7200) return Math.floor(seconds / 60) + ' min ' + Math.round(seconds % 60) + ' s';
  return Math.floor(seconds / 3600) + ' h ' + Math.round(seconds % 3600 / 60) + ' min';
}
const moment = seconds => seconds > 0 ? new Date(seconds * 1000).toISOString().slice(0, 19).replace('T', ' ') + ' UTC' : '–';

// Colors repeat after eight runs, with other dashes.
const look = index => ({color: `var(--c${index % 8})`, dash: ['', '7 4', '2 3'][Math.floor(index / 8) % 3]});

function key(name, style) {
  const mark = drawn('svg', {width: 22, height: 10});
  mark.append(drawn('line', {x1: 1, x2: 21, y1: 5, y2: 5, stroke: style.color, 'stroke-width': 3, 'stroke-dasharray': style.dash || ''}));
  return [mark, element('span', {}, name)];
}

function table(head, rows, numeric = []) {
  const alignment = (column, text) => numeric.includes(column) ? {class: 'number'} : text.length > 40 ? {class: 'long'} : {};
  const body = rows.map(row => element('tr', {}, ...row.map((cell, i) =>
      cell instanceof Element ? cell : element('td', alignment(i, cell), cell))));
  const titles = head.length ? [element('tr', {}, ...head.map((title, i) => element('th', alignment(i, ''), title)))] : [];
  return element('div', {class: 'card scroll'}, element('table', {}, ...titles, ...body));
}

function section(title, hint, ...content) {
  const all = [element('h2', {}, title)];
  if (hint) all.push(element('p', {class: 'hint'}, hint));
  document.getElementById('report').append(...all, ...content);
}
const grid = cards => element('div', {class: 'grid'}, ...cards);

// ---- curves ----

const curveOf = (run, tag) => run.training.find(curve => curve.tag === tag);
const beginning = run => run.starts.length ? run.starts[0].time : Math.min(...run.training.map(curve => curve.times[0]));

// [{step, time, value}], time in seconds since the run's beginning
function points(run, curve) {
  const begin = beginning(run);
  return curve.steps.map((step, i) => ({step, time: Math.max(0, curve.times[i] - begin), value: curve.values[i]}));
}

// Exponential moving average without a bias towards its first value, as TensorBoard smooths.
function smoothed(all, weight) {
  let mean = 0, sum = 0;
  return all.map(point => {
    if (point.value === null) return point;
    mean = mean * weight + point.value * (1 - weight);
    sum = sum * weight + (1 - weight);
    return {...point, value: mean / sum};
  });
}

// ---- axes ----

function linearTicks(low, high, count) {
  const raw = (high - low) / count;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].find(factor => factor * power >= raw) * power;
  const ticks = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + step * 1e-9; ++i) ticks.push(i * step);
  return ticks;
}

function byteTicks(low, high, count) {
  let step = 1;
  while ((high - low) / step > count) step *= 2;
  const ticks = [];
  for (let at = Math.ceil(low / step) * step; at <= high; at += step) ticks.push(at);
  return ticks;
}

function logTicks(low, high) {
  const ticks = [];
  const decades = Math.log10(high / low);
  const factors = decades < 1.5 ? [1, 2, 3, 5, 7] : decades < 3 ? [1, 2, 5] : [1];
  const every = Math.max(1, Math.ceil(decades / 6));
  for (let power = Math.floor(Math.log10(low)); power <= Math.log10(high); ++power) {
    if (((power % every) + every) % every) continue;
    for (const factor of factors) {
      const at = factor * 10 ** power;
      if (at >= low * (1 - 1e-9) && at <= high * (1 + 1e-9)) ticks.push(at);
    }
  }
  return ticks.length > 1 ? ticks : linearTicks(low, high, 4);
}

function timeTicks(low, high, count) {
  const steps = [0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200, 86400];
  const step = steps.find(each => (high - low) / each <= count) || 86400 * Math.ceil((high - low) / 86400 / count);
  const ticks = [];
  for (let at = Math.ceil(low / step) * step; at <= high + step * 1e-9; at += step) ticks.push(at);
  return ticks;
}

function shortDuration(seconds) {
  if (seconds === 0) return '0';
  if (seconds < 60) return number.format(seconds) + ' s';
  if (seconds < 3600) return number.format(seconds / 60) + ' min';
  return number.format(seconds / 3600) + ' h';
}

// ---- a chart ----

// series: [{name, color, dash, points, run}]; `format` writes a value; `zero`: the axis begins at 0
function chart(title, series, options = {}) {
  const plot = element('div', {class: 'chart'});
  const card = element('div', {class: 'card'}, element('h3', {}, title), plot);
  if (options.keys) card.append(element('div', {class: 'legend'}, ...series.map(each => element('span', {class: 'key'}, ...key(each.name, each)))));
  const made = {plot, series, options, format: options.format || plain};
  charts.push(made);
  new ResizeObserver(() => requestAnimationFrame(() => draw(made))).observe(plot);
  return card;
}

const isShown = series => series.run === undefined || !series.run.hidden;
const position = point => settings.axis === 'time' ? point.time : point.step;

function bounds(values) {
  let low = Infinity, high = -Infinity;
  for (const value of values) {
    if (value === null) continue;
    low = Math.min(low, value);
    high = Math.max(high, value);
  }
  return [low, high];
}

function draw(made) {
  const width = made.plot.clientWidth;
  if (!width) return;
  const height = 230, top = 10, bottom = 24, left = 58, right = 14;
  const shown = made.series.filter(isShown).map(series => {
    const smooths = settings.smoothing > 0 && !made.options.exact;
    return {...series, raw: smooths ? series.points : null, points: smooths ? smoothed(series.points, settings.smoothing) : series.points};
  });
  const [first, last] = bounds(shown.flatMap(series => series.points.map(position)));
  let [low, high] = bounds(shown.flatMap(series => (series.raw || series.points).map(point => point.value)));
  const svg = drawn('svg', {viewBox: `0 0 ${width} ${height}`, height, role: 'img'});
  made.plot.replaceChildren(svg);
  if (low > high) {
    svg.append(drawn('text', {x: width / 2, y: height / 2, 'text-anchor': 'middle'}, 'no finite values'));
    return;
  }
  const logarithmic = settings.logarithmic && low > 0 && !made.options.zero;
  if (made.options.zero) low = Math.min(0, low);
  if (made.options.one) high = 1;
  if (low === high) { high += Math.abs(high) / 2 || 1; if (!made.options.zero) low -= Math.abs(low) / 2 || 1; }
  const scale = logarithmic ? Math.log : value => value;
  const margin = made.options.one ? 0 : 0.04 * (scale(high) - scale(low));
  const floor = scale(low) - (made.options.zero ? 0 : margin), ceiling = scale(high) + margin;
  const unscaled = value => logarithmic ? Math.exp(value) : value;
  const x = at => left + (first === last ? 0.5 : (at - first) / (last - first)) * (width - left - right);
  const y = value => top + (1 - (scale(value) - floor) / (ceiling - floor)) * (height - top - bottom);

  const ticks = logarithmic ? logTicks : made.format === bytes ? byteTicks : linearTicks;
  for (const tick of ticks(unscaled(floor), unscaled(ceiling), 5)) {
    svg.append(drawn('line', {class: 'grid-line', x1: left, x2: width - right, y1: y(tick), y2: y(tick)}));
    svg.append(drawn('text', {x: left - 8, y: y(tick) + 4, 'text-anchor': 'end'}, made.format(Number(tick.toPrecision(12)))));
  }
  const count = Math.max(2, Math.floor(width / 95));
  const across = settings.axis === 'time' ? timeTicks(first, last, count) : linearTicks(first, Math.max(last, first + 1), count).filter(Number.isInteger);
  for (const tick of across) {
    if (tick > last) continue;
    const anchor = x(tick) > width - right - 20 ? 'end' : 'middle';
    svg.append(drawn('text', {x: x(tick), y: height - 7, 'text-anchor': anchor}, settings.axis === 'time' ? shortDuration(tick) : tick < 1e4 ? String(tick) : compact.format(tick)));
  }
  svg.append(drawn('line', {class: 'axis-line', x1: left, x2: width - right, y1: height - bottom, y2: height - bottom}));
  for (const series of shown) {
    if (series.raw) svg.append(path(series, series.raw, x, y, logarithmic, 'curve faint'));
    svg.append(path(series, series.points, x, y, logarithmic, 'curve'));
    if (series.points.length === 1 && series.points[0].value !== null)
      svg.append(drawn('circle', {cx: x(position(series.points[0])), cy: y(series.points[0].value), r: 3.5, fill: series.color}));
  }
  follow(made, svg, shown, {x, y, width, height, top, bottom, left, right, logarithmic});
}

// A value that is not finite, or not above 0 on a logarithmic axis, is a gap.
function path(series, all, x, y, logarithmic, kind) {
  let text = '', pen = 'M';
  for (const point of all) {
    if (point.value === null || (logarithmic && point.value <= 0)) { pen = 'M'; continue; }
    text += `${pen}${x(position(point)).toFixed(1)} ${y(point.value).toFixed(1)}`;
    pen = 'L';
  }
  return drawn('path', {class: kind, d: text, stroke: series.color, 'stroke-dasharray': series.dash || ''});
}

// The values under the pointer.
function follow(made, svg, shown, frame) {
  const marks = drawn('g', {});
  const tip = element('div', {class: 'tip', hidden: ''});
  svg.append(marks);
  made.plot.append(tip);
  const leave = () => { marks.replaceChildren(); tip.hidden = true; };
  svg.addEventListener('pointerleave', leave);
  svg.addEventListener('pointermove', event => {
    leave();
    const at = event.clientX - svg.getBoundingClientRect().left;
    const nearest = all => all.reduce((best, point) => point.value !== null && (!best || Math.abs(frame.x(position(point)) - at) < Math.abs(frame.x(position(best)) - at)) ? point : best, null);
    const found = shown.map(series => [series, nearest(series.points)]).filter(([, point]) => point);
    if (!found.length) return;
    const [, lead] = found.reduce((a, b) => Math.abs(frame.x(position(a[1])) - at) <= Math.abs(frame.x(position(b[1])) - at) ? a : b);
    const column = frame.x(position(lead));
    marks.append(drawn('line', {class: 'axis-line', x1: column, x2: column, y1: frame.top, y2: frame.height - frame.bottom}));
    const rows = found.map(([series, point]) => {
      if (!frame.logarithmic || point.value > 0)
        marks.append(drawn('circle', {cx: frame.x(position(point)), cy: frame.y(point.value), r: 3.5, fill: series.color}));
      return element('tr', {}, element('td', {}, element('span', {class: 'key'}, ...key(series.name, series))), element('td', {class: 'number'}, made.format(point.value)));
    });
    tip.replaceChildren(element('div', {}, `step ${lead.step.toLocaleString('en-US')}, ${duration(lead.time)}`), element('table', {}, ...rows));
    tip.hidden = false;
    const beside = column + 14 + tip.offsetWidth > frame.width ? column - 14 - tip.offsetWidth : column + 14;
    tip.style.transform = `translate(${Math.max(0, beside)}px, ${frame.top}px)`;
  });
}

// One chart for a tag, with a curve for each run that has it.
function overlaid(title, choose, options) {
  const series = runs.flatMap((run, i) => {
    const all = choose(run);
    return all && all.length ? [{name: run.name, points: all, run, ...look(i)}] : [];
  });
  return series.length ? [chart(title, series, options)] : [];
}

// ---- what a run says ----

const factOf = (facts, name) => (facts.find(fact => fact[0] === name) || [])[1];
const lastValue = (run, tag) => { const curve = curveOf(run, tag); return curve ? curve.values.at(-1) : null; };
const lastStep = run => Math.max(0, ...run.training.map(curve => curve.steps.at(-1)), Number(factOf(run.result, 'steps')) || 0, ...run.checkpoints.filter(each => !each.problem).map(each => each.step));
const isOwn = tag => tag === 'global_step/sec' || tag === 'time_outside_steps' || tag.startsWith('step_shares/') || tag.startsWith('memory/');

// {phase: points} of each replica
function phasesOf(run) {
  const replicas = [];
  for (const curve of run.training) {
    const match = /^step_shares\/replica_(\d{1,4})\/(\w+)$/.exec(curve.tag);
    if (match) (replicas[Number(match[1])] ??= {})[match[2]] = points(run, curve);
  }
  return Array.from(replicas, replica => replica || {});
}

// The mean fractions of each replica: of the result, or else of the curves.
function fractionsOf(run) {
  if (run.step_fractions.length) return run.step_fractions;
  return phasesOf(run).map(phases => Object.fromEntries(Object.entries(phases).map(([phase, all]) =>
      [phase, all.reduce((sum, point) => sum + (point.value || 0), 0) / all.length])));
}

const mean = values => values.length ? values.reduce((a, b) => a + b, 0) / values.length : 0;

// [{step, time, seconds, lost: {cause: fraction of that time}}], between two reports
function stallsOf(run) {
  const replicas = phasesOf(run).filter(phases => phases.compute);
  if (!replicas.length) return [];
  const outside = curveOf(run, 'time_outside_steps');
  const outsideAt = new Map(outside ? outside.steps.map((step, i) => [step, outside.values[i]]) : []);
  const started = new Map(run.starts.map(start => [start.step, start.time - beginning(run)]));
  let before = 0;
  return replicas[0].compute.map((point, i) => {
    const apart = outsideAt.get(point.step) || 0;
    const lost = {outside: apart};
    for (const phase of ['input', 'wait', 'communication'])
      lost[phase] = (1 - apart) * mean(replicas.map(phases => phases[phase]?.[i]?.value || 0));
    const begin = Math.max(before, ...[...started].filter(([step, time]) => step <= point.step && time <= point.time).map(([, time]) => time));
    before = point.time;
    return {step: point.step, time: point.time, seconds: Math.max(0, point.time - begin), lost};
  });
}

// Examples a second of each replica while it does not wait: a slow one shows, though all make steps equally often.
function paces(run) {
  const rate = curveOf(run, 'global_step/sec');
  if (!rate || !run.examples_per_step) return [];
  const rates = new Map(points(run, rate).map(point => [point.step, point.value]));
  const replicas = phasesOf(run);
  const all = Math.max(1, replicas.length) * (run.workers || 1);
  const outside = curveOf(run, 'time_outside_steps');
  const outsideAt = new Map(outside ? outside.steps.map((step, i) => [step, outside.values[i]]) : []);
  return replicas.map((phases, i) => ({
    name: `replica ${i}` + (run.devices[i] ? `, ${run.devices[i]}` : ''), ...look(i), run,
    points: (phases.compute || []).map((point, j) => {
      const busy = (1 - (outsideAt.get(point.step) || 0)) * (1 - (phases.wait?.[j]?.value || 0) - (phases.input?.[j]?.value || 0));
      const value = rates.get(point.step) * run.examples_per_step / all / busy;
      return {...point, value: Number.isFinite(value) ? value : null};
    })
  })).filter(series => series.points.length);
}

// ---- the sections ----

function summary() {
  const rows = runs.map((run, i) => [
    element('td', {}, element('span', {class: 'key'}, ...key(run.name, look(i)))), run.state + (run.holder ? `: ${run.holder}` : ''),
    [factOf(run.configuration, 'model'), factOf(run.configuration, 'dataset')].filter(Boolean).join(' on ') || '–',
    [factOf(run.configuration, 'strategy'), run.devices.length > 1 ? `${run.devices.length} replicas` : ''].filter(Boolean).join(', ') || '–',
    whole(lastStep(run)) + (run.total_steps ? ' of ' + whole(run.total_steps) : ''),
    factOf(run.result, 'examples_per_second') ? whole(Number(factOf(run.result, 'examples_per_second'))) : '–',
    plain(Number(factOf(run.result, 'final_loss') ?? lastValue(run, 'loss') ?? NaN)),
    percentOf(factOf(run.result, 'eval_accuracy')),
    run.last_time && run.training.length ? duration(Math.max(0, run.last_time - beginning(run))) : '–',
    String(Math.max(0, run.starts.length - 1))]);
  document.getElementById('report').append(table(['Run', 'State', 'Model', 'Strategy', 'Steps', 'Examples/s', 'Loss', 'Test accuracy', 'Time', 'Restarts'], rows, [4, 5, 6, 7, 8, 9]));
}
const percentOf = text => text !== undefined && text !== '-' && Number.isFinite(Number(text)) ? (100 * Number(text)).toFixed(2) + ' %' : '–';

function notes() {
  const lines = runs.flatMap(run => run.missing.map(line => runs.length > 1 ? `${run.name}: ${line}` : line));
  if (lines.length) document.getElementById('report').append(element('div', {class: 'note'}, 'Not everything is there:', element('ul', {}, ...lines.map(line => element('li', {}, line)))));
}

function curves() {
  const tags = kind => [...new Set(runs.flatMap(run => run[kind].map(curve => curve.tag)))];
  const cards = tags('training').filter(tag => !isOwn(tag)).flatMap(tag => overlaid(tag, run => { const curve = curveOf(run, tag); return curve && points(run, curve); }));
  const evaluations = tags('evaluation').flatMap(tag => overlaid(`${tag} on the test split`, run => {
    const curve = run.evaluation.find(each => each.tag === tag);
    return curve && points(run, curve);
  }));
  if (cards.length + evaluations.length) section('Loss and metrics', '', grid([...cards, ...evaluations]));
}

function speed() {
  const total = overlaid('Examples per second, all replicas', run => {
    const rate = curveOf(run, 'global_step/sec');
    return rate && run.examples_per_step && points(run, rate).map(point => ({...point, value: point.value === null ? null : point.value * run.examples_per_step}));
  }, {zero: true});
  const steps = total.length ? [] : overlaid('Steps per second', run => { const rate = curveOf(run, 'global_step/sec'); return rate && points(run, rate); }, {zero: true});
  const replicas = runs.flatMap(run => { const series = paces(run); return series.length ? [chart(title(run, 'Examples per second of each replica while it does not wait'), series, {zero: true, keys: true})] : []; });
  if (total.length + steps.length + replicas.length)
    section('Throughput', 'Replicas of a synchronous strategy make steps equally often; what each would do without waiting for the others shows the slow one.', grid([...total, ...steps, ...replicas]));
}
const title = (run, text) => runs.length > 1 ? `${run.name}: ${text}` : text;

function stepTimes() {
  const cards = runs.flatMap(run => {
    const replicas = fractionsOf(run);
    if (!replicas.length) return [];
    const bars = replicas.map((fractions, i) => {
      const parts = PHASES.filter(phase => fractions[phase] > 0).map(phase => {
        const part = element('i', {title: `${phase} ${percent(fractions[phase])}`}, fractions[phase] > 0.1 ? Math.round(100 * fractions[phase]) + ' %' : '');
        part.style.width = `${100 * fractions[phase]}%`;
        part.style.background = `var(--${phase})`;
        return part;
      });
      return element('div', {class: 'bar-row'}, element('span', {}, `replica ${i}` + (run.devices[i] ? `, ${run.devices[i]}` : '')), element('div', {class: 'bar'}, ...parts));
    });
    const legend = element('div', {class: 'legend'}, ...PHASES.map(phase => element('span', {class: 'key'}, ...key(phase, {color: `var(--${phase})`}))));
    return [element('div', {class: 'card'}, element('h3', {}, title(run, 'Fractions of a step')), ...bars, legend)];
  });
  if (cards.length) section('Where steps spend their time', 'Input: waiting for the next batch. Wait: for slower replicas. Communication and update: in collectives and in the optimizer. Compute: the rest. On GPUs these are times of the host’s threads.', grid(cards));
}

function stalls() {
  const cards = [];
  const rows = [];
  for (const run of runs) {
    const all = stallsOf(run);
    const seconds = all.reduce((sum, each) => sum + each.seconds, 0);
    if (!all.length) continue;
    const series = STALLS.map(([cause]) => ({name: cause, run, color: `var(--${cause})`, dash: '', points: all.map(each => ({step: each.step, time: each.time, value: each.lost[cause]}))}));
    cards.push(chart(title(run, 'Fraction of the time lost'), series, {zero: true, format: percent, keys: true}));
    for (const [cause, words, advice] of STALLS) {
      const lost = all.reduce((sum, each) => sum + each.seconds * each.lost[cause], 0);
      rows.push([...(runs.length > 1 ? [run.name] : []), words, duration(lost), seconds ? percent(lost / seconds) : '–', advice]);
    }
  }
  const offset = runs.length > 1 ? 1 : 0;
  if (cards.length) section('Stalls by cause', '', grid(cards), element('p', {}), table([...(offset ? ['Run'] : []), 'Cause', 'Time', 'Fraction', 'What helps'], rows, [1 + offset, 2 + offset]));
}

function memory() {
  const cards = overlaid('Memory of the process', run => { const curve = curveOf(run, 'memory/resident_bytes'); return curve && points(run, curve); }, {zero: true, format: bytes, exact: true});
  if (cards.length) section('Memory', 'Resident memory of the chief’s process. Memory of GPUs is not recorded.', grid(cards));
}

function placement() {
  const rows = runs.flatMap(run => run.devices.map((device, i) => [...(runs.length > 1 ? [run.name] : []), `replica ${i}`, device]));
  const offset = runs.length > 1 ? ['Run'] : [];
  if (!rows.length) return;
  const facts = runs.map(run => ['strategy', 'workers', 'controller', 'logical_replicas', 'micro_batches', 'pipeline_schedule'].map(name => [name, factOf(run.configuration, name)])
      .concat([['cut', factOf(run.result, 'cut')]]).filter(([, value]) => value && value !== '-'));
  section('Placement', 'Replicas of the chief’s process. Other workers have as many.', grid([
    table([...offset, 'Replica', 'Device'], rows), table([...offset, 'Setting', 'Value'], facts.flatMap((all, i) => all.map(fact => [...(offset.length ? [runs[i].name] : []), ...fact])))]));
}

// A row for each name, a column for each run; values that differ are marked.
function facts(titleOf, kind) {
  const names = [...new Set(runs.flatMap(run => run[kind].map(fact => fact[0])))];
  if (!names.length) return;
  const rows = names.map(name => {
    const values = runs.map(run => factOf(run[kind], name) ?? '–');
    const differ = values.some(value => value !== values[0]);
    const readable = value => /(^|_)bytes$/.test(name) && /^\d+$/.test(value) ? bytes(Number(value)) : value;
    return [element('th', {}, name.replaceAll('_', ' ')), ...values.map(value => element('td', {class: (differ ? 'differs' : '') + (value.length > 40 ? ' long' : '')}, readable(value)))];
  });
  section(titleOf, runs.length > 1 ? 'Values that differ are bold.' : '', table(runs.length > 1 ? ['', ...runs.map(run => run.name)] : [], rows));
}

function starts() {
  const rows = runs.flatMap(run => run.starts.map((start, i) => [...(runs.length > 1 ? [run.name] : []), i === 0 ? 'start' : `restart ${i}`, moment(start.time),
    whole(start.step), i === 0 ? '–' : duration(start.pause), i === 0 ? '–' : whole(start.repeated), [start.process && `process ${start.process}`, start.host].filter(Boolean).join(' on ') || '–']));
  const offset = runs.length > 1 ? 1 : 0;
  if (rows.length) section('Starts and restarts', 'Steps that were made again had been made after the checkpoint that the process resumed from.',
      table([...(offset ? ['Run'] : []), '', 'When', 'First step', 'Pause before', 'Steps made again', 'Process'], rows, [2 + offset, 3 + offset, 4 + offset]));
}

function checkpoints() {
  const rows = runs.flatMap(run => run.checkpoints.map(each => [...(runs.length > 1 ? [run.name] : []), each.name, whole(each.step), moment(each.time), each.bytes ? bytes(each.bytes) : '–', each.problem || 'complete']));
  const offset = runs.length > 1 ? 1 : 0;
  if (rows.length) section('Checkpoints', '', table([...(offset ? ['Run'] : []), 'Name', 'Step', 'When', 'Size', 'State'], rows, [1 + offset, 3 + offset]));
}

// ---- the page ----

function header() {
  document.title = runs.length === 1 ? `Training report: ${runs[0].name}` : `Training report: ${runs.length} runs`;
  document.getElementById('subtitle').textContent = (runs.length === 1 ? runs[0].path : `${runs.length} runs`) + ', as of ' + moment(data.time);
  if (runs.length > 1) {
    document.getElementById('runs').append(...runs.map((run, i) => {
      const button = element('button', {class: 'key', type: 'button', 'aria-pressed': 'true', title: run.path}, ...key(run.name, look(i)));
      button.addEventListener('click', () => {
        run.hidden = !run.hidden;
        button.setAttribute('aria-pressed', String(!run.hidden));
        charts.forEach(draw);
      });
      return button;
    }));
  }
  const change = (id, apply) => document.getElementById(id).addEventListener('input', event => { apply(event.target); charts.forEach(draw); });
  change('axis', input => { settings.axis = input.value; });
  change('smoothing', input => { settings.smoothing = Number(input.value); });
  change('logarithmic', input => { settings.logarithmic = input.checked; });
}

for (const part of [header, notes, summary, curves, speed, stepTimes, stalls, memory, placement]) part();
facts('Configuration', 'configuration');
facts('Result', 'result');
facts('Machine', 'machine');
starts();
checkpoints();
