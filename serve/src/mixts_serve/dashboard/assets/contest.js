// The button that activates the challenger. Its page has it only for those who may.
"use strict";

const activating = document.getElementById("activate-prior");

if (activating) {
  const said = document.getElementById("activate-said");
  const { version } = activating.dataset;

  activating.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (!confirm(`Activate version ${version} of the prior? It decides from the next decision on.`)) return;
    said.textContent = "Sending …";
    try {
      const response = await fetch(`priors/${version}/activate`, { method: "POST" });
      const answer = await response.json();
      said.classList.toggle("refused", !response.ok);
      said.textContent = response.ok
        ? `Version ${version} is active.`
        : `Not changed: ${answer.error.message}.`;
      activating.querySelector("button").disabled = response.ok;
    } catch {
      said.textContent = "No response. Reload the page; sending it again does no harm.";
    }
    refresh(true);
  });
  activating.hidden = false;
}
