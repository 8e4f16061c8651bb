// The form that adds, retires, restores and renames arms. Its page has it only for those who may.
"use strict";

const LONGEST_CHANGE = 60000; // Milliseconds: a prior of many arms takes a while.
const changing = document.getElementById("change-arms");

if (changing) {
  const one = document.getElementById("one-arm");
  const choice = document.getElementById("arm-choice");
  const fresh = document.getElementById("new-arms");
  const rename = document.getElementById("new-name");
  const said = document.getElementById("arms-said");
  let sending = false;

  const say = (words, refused = false) => {
    said.textContent = words;
    said.classList.toggle("refused", refused);
  };

  // The label has stand-ins for characters that cannot be seen.
  const label = () => `“${choice.selectedOptions[0].dataset.label}”`;

  const chosen = () => {
    if (choice.value) return true;
    say("Choose an arm first.", true);
    choice.focus();
    return false;
  };

  // Other sites cannot send JSON here: the browser asks the service first, which refuses.
  async function send(changes, done, form) {
    if (sending) return;
    sending = true;
    say("Sending …");
    try {
      const response = await fetch("arms", {
        method: "POST",
        headers: { "Content-Type": "application/json" },
        body: JSON.stringify(changes),
        signal: AbortSignal.timeout(LONGEST_CHANGE),
      });
      const answer = await response.json();
      if (!response.ok) {
        say(`Not changed: ${answer.error.message}.`, true);
      } else if (String(answer.version) === choice.dataset.version) {
        say("Nothing to change: it is so already.");
      } else {
        say(`${done} Version ${answer.version} of the prior is active.`);
        form.reset();
      }
    } catch {
      say("No response. Look at the table; sending the change again does no harm.", true);
    }
    sending = false;
    refresh(true);
  }

  document.getElementById("add-arms").addEventListener("submit", (event) => {
    event.preventDefault();
    const add = fresh.value.split("\n").map((name) => name.trim()).filter(Boolean);
    if (!add.length) say("Write the name of a new arm first.", true);
    else send({ add }, add.length > 1 ? `Added ${add.length} arms.` : "Added one arm.", event.target);
  });

  document.getElementById("retire-arm").addEventListener("click", () => {
    if (!chosen()) return;
    const question = `Retire ${label()}? No decision takes it any more. You can restore it later.`;
    if (confirm(question)) send({ retire: [choice.value] }, `Retired ${label()}.`, one);
  });

  document.getElementById("restore-arm").addEventListener("click", () => {
    if (chosen()) send({ restore: [choice.value] }, `Restored ${label()}.`, one);
  });

  // Enter in the field of the new name renames: this is the form's only button that submits.
  one.addEventListener("submit", (event) => {
    event.preventDefault();
    if (!chosen()) return;
    const name = rename.value.trim();
    if (name) {
      send({ rename: { [choice.value]: name } }, `Renamed ${label()} to “${name}”.`, one);
    } else {
      say("Write the new name first.", true);
      rename.focus();
    }
  });

  changing.hidden = false;
}
