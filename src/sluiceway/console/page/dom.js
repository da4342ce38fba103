// Elements from data, and as few changes to the document as a new look at the data needs.

const SVG = "http://www.w3.org/2000/svg";
const SVG_TAGS = new Set(["svg", "path", "line", "rect", "circle", "g", "text", "title", "polyline"]);

// Names and texts of others may turn the direction of what follows, or be no letters at all: such
// characters are shown by their numbers, so that a command looks as it is. Ends of lines stay.
const UNSEEN = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/g;

export const seen = (text) => text.replace(UNSEEN, (each) => `\\u${each.charCodeAt(0).toString(16).padStart(4, "0")}`);

// The same for a name, which has one line.
export const word = (text) => seen(text.replace(/[\t\n\r]/g, (each) => `\\u${each.charCodeAt(0).toString(16).padStart(4, "0")}`));

// Make an element. `on` holds listeners by event, `style` CSS properties by name; a null or false
// property is left out. Text becomes text: nothing is ever parsed as markup.
export function h(tag, props, ...children) {
  const node = SVG_TAGS.has(tag) ? document.createElementNS(SVG, tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(props ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "on") listen(node, value);
    else if (name === "style") for (const [key, each] of Object.entries(value)) node.style.setProperty(key, each);
    else if (name === "value" && tag !== "option") node.value = value;
    else node.setAttribute(name, value === true ? "" : String(value));
  }
  for (const each of children.flat(Infinity)) {
    if (each !== null && each !== undefined && each !== false) node.append(each instanceof Node ? each : seen(String(each)));
  }
  return node;
}

function listen(node, handlers) {
  node.handlers = handlers;
  for (const event of Object.keys(handlers)) {
    node.addEventListener(event, (given) => node.handlers?.[event]?.(given));
  }
}

// Show `children` in `parent`. What is there already and looks alike stays, so that focus, scroll
// places and open details survive.
export function show(parent, ...children) {
  const wanted = children.flat(Infinity).filter(Boolean);
  morphChildren(parent, wanted.map((each) => (typeof each === "string" ? document.createTextNode(seen(each)) : each)));
}

function morphChildren(parent, wanted) {
  const keyed = new Map();
  for (const child of parent.childNodes) if (keyOf(child)) keyed.set(keyOf(child), child);
  let place = parent.firstChild;
  for (const next of wanted) {
    const key = keyOf(next);
    const old = key ? keyed.get(key) : place && !keyOf(place) ? place : null;
    if (old && isAlike(old, next)) {
      // Of two with one key the second one is new: one element cannot be both.
      keyed.delete(key);
      if (old !== place) parent.insertBefore(old, place);
      morph(old, next);
      place = old.nextSibling;
    } else {
      parent.insertBefore(next, place);
    }
  }
  while (place) {
    const following = place.nextSibling;
    place.remove();
    place = following;
  }
}

function keyOf(node) {
  return node.nodeType === Node.ELEMENT_NODE ? node.dataset.key : undefined;
}

function isAlike(old, next) {
  if (old.nodeType !== next.nodeType || old.nodeName !== next.nodeName || keyOf(old) !== keyOf(next)) return false;
  const listened = (node) => Object.keys(node.handlers ?? {}).join();
  return listened(old) === listened(next);
}

function morph(old, next) {
  if (old.nodeType !== Node.ELEMENT_NODE) {
    if (old.nodeValue !== next.nodeValue) old.nodeValue = next.nodeValue;
    return;
  }
  for (const { name } of [...old.attributes]) {
    // Whoever reads opens and closes details.
    if (!next.hasAttribute(name) && name !== "open") old.removeAttribute(name);
  }
  for (const { name, value } of next.attributes) if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  if ("handlers" in next) old.handlers = next.handlers;
  // A chart draws itself once it knows its width.
  if ("draw" in next) {
    old.draw = next.draw;
    old.draw(old);
    return;
  }
  morphChildren(old, [...next.childNodes]);
  if (old.nodeName === "SELECT" && document.activeElement !== old) old.value = next.value;
}
