"""Why an agent's regret is what it is: confidence sets, decomposition, identification."""
