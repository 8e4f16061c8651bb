// Updates the elements marked data-live in place, every two seconds, or less often if the service
// responds slowly.
"use strict";

const SHORTEST_WAIT = 2000; // Milliseconds between updates.
const LONGEST_WAIT = 15000;
const WAIT_FACTOR = 8; // Wait this many response times, so that viewers do not keep the service busy.
const TIMEOUT = 10000;
const here = location.origin + location.pathname + location.search;
const live = document.getElementById("live");
const state = document.getElementById("state");
const pause = document.getElementById("pause");
let paused = false;
let timer = 0;
let busy = false;

// Screen readers announce every change, so change the text only if it differs.
function showState(name, words) {
  live.dataset.state = name;
  document.body.dataset.connection = name; // What the page says of the service may be old.
  if (state.textContent !== words) state.textContent = words;
}

// Elements that the user points at, focuses or selects must not change.
function inUse(part) {
  const selection = getSelection();
  if (selection && !selection.isCollapsed && selection.containsNode(part, true)) return true;
  if (part.dataset.live !== "steady") return false;
  const focused = part.contains(document.activeElement);
  return focused || (matchMedia("(hover: hover)").matches && part.matches(":hover"));
}

const key = (node) => (node.nodeType === Node.ELEMENT_NODE ? node.dataset.key : undefined);
const alike = (one, other) => one.nodeName === other.nodeName && key(one) === key(other);

// Makes the old node equal to the new one with as few changes as possible, to keep focus and
// scrolling. Rows with a key keep their elements when they move.
function patch(old, fresh) {
  if (old.nodeType !== Node.ELEMENT_NODE) {
    if (old.data !== fresh.data) old.data = fresh.data;
    return;
  }
  for (const { name } of [...old.attributes]) {
    if (!fresh.hasAttribute(name)) old.removeAttribute(name);
  }
  for (const { name, value } of fresh.attributes) {
    if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  }
  let next = old.firstChild;
  for (const child of [...fresh.childNodes]) {
    let same = next;
    if (key(child) !== undefined) {
      same = [...old.children].find((node) => alike(node, child));
    }
    if (same && alike(same, child)) {
      if (same === next) next = next.nextSibling;
      else old.insertBefore(same, next);
      patch(same, child);
    } else {
      old.insertBefore(document.adoptNode(child), next);
    }
  }
  while (next) {
    const after = next.nextSibling;
    next.remove();
    next = after;
  }
}

function update(text) {
  const fresh = new DOMParser().parseFromString(text, "text/html");
  for (const part of document.querySelectorAll("[data-live]")) {
    const other = fresh.getElementById(part.id);
    const held = inUse(part);
    part.toggleAttribute("data-held", held);
    if (other && !held && !part.isEqualNode(other)) patch(part, other);
  }
}

// With once, a paused page is updated once.
async function refresh(once = false) {
  clearTimeout(timer);
  if ((paused && !once) || busy || document.hidden) return;
  busy = true;
  const started = performance.now();
  try {
    const response = await fetch(here, {
      cache: "no-store",
      headers: { Accept: "text/html" },
      signal: AbortSignal.timeout(TIMEOUT),
    });
    if (!response.ok) throw new Error(`status ${response.status}`);
    const text = await response.text();
    if (!paused || once) update(text);
    if (!paused) showState("live", "live");
  } catch {
    if (!paused) showState("lost", "connection lost, trying again");
  }
  busy = false;
  clearTimeout(timer);
  const wait = WAIT_FACTOR * (performance.now() - started);
  timer = setTimeout(refresh, Math.min(Math.max(SHORTEST_WAIT, wait), LONGEST_WAIT));
}

pause.addEventListener("click", () => {
  paused = !paused;
  pause.setAttribute("aria-pressed", String(paused));
  if (paused) showState("paused", "paused");
  else showState("live", "live");
  refresh();
});

document.addEventListener("visibilitychange", () => refresh());
pause.hidden = false;
showState("live", "live");
timer = setTimeout(refresh, SHORTEST_WAIT);
