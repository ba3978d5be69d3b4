// Fetches the page's main part every two seconds and exchanges the parts of it that have changed. Sections stay open or
// closed, and the page where it was scrolled to; a part with selected text in it waits. Without this script, the page
// shows the same, and is loaded anew.
"use strict";

const pause = 2000; // milliseconds from one answer to the next question
const patience = 8000; // how long an answer may take
let timer = null;
let asking = false;
let lostSince = null;

function hasSelection(part) {
  const selection = document.getSelection();
  return selection !== null && !selection.isCollapsed && selection.containsNode(part, true);
}

function exchange(old, fresh) {
  if (old.innerHTML === fresh.innerHTML || hasSelection(old))
    return;
  const focus = old.contains(document.activeElement) ? document.activeElement.getAttribute("href") : null;
  old.replaceChildren(...fresh.childNodes);
  for (const link of old.querySelectorAll("a"))
    if (focus !== null && link.getAttribute("href") === focus)
      link.focus({preventScroll: true});
}

function show(text) {
  const main = document.querySelector("main");
  const fresh = new DOMParser().parseFromString(text, "text/html").querySelector("main");
  if (fresh === null)
    throw new Error("it sent something else");
  document.title = fresh.dataset.title;
  main.className = fresh.className;
  const parts = new Map();
  for (const part of main.querySelectorAll("[data-part]"))
    parts.set(part.dataset.part, part);
  const news = [...fresh.querySelectorAll("[data-part]")];
  if (news.some((part) => !parts.has(part.dataset.part))) // the first state has come
    main.replaceWith(fresh);
  else
    for (const part of news)
      exchange(parts.get(part.dataset.part), part);
}

// Says that the process which serves this page is gone; whether the broker is, the page itself says.
function tell(problem) {
  const lost = document.getElementById("lost");
  lostSince = problem === null ? null : lostSince ?? new Date();
  lost.hidden = problem === null;
  if (problem === null)
    return;
  const since = lostSince.toISOString().replace("T", " ").slice(0, 19);
  lost.textContent = `⚠ gpuactors dashboard has not answered since ${since} UTC: ${problem}. `
    + "Below is what it said last.";
  document.querySelector("main").className = "stale";
  document.title = "no answer - gpuactors";
}

async function renew() {
  clearTimeout(timer);
  if (asking || document.hidden)
    return;
  asking = true;
  try {
    const answer = await fetch("/main", {cache: "no-store", signal: AbortSignal.timeout(patience)});
    const text = await answer.text();
    if (!answer.ok)
      throw new Error(text.trim());
    show(text);
    tell(null);
  } catch (error) {
    tell(error.message);
  }
  asking = false;
  timer = setTimeout(renew, pause);
}

document.addEventListener("visibilitychange", renew);
timer = setTimeout(renew, pause);
