"""Plausible ways to break the code, and the tests that must notice; ``mutations.py`` tries them."""

from __future__ import annotations

from dataclasses import dataclass, replace

FAMILIES = "tests/contracts/test_families.py"
JOINT_LAW = "tests/statistical/test_joint_law.py"
IDENTITIES = "tests/statistical/test_identities.py"
SUBSET = (FAMILIES, JOINT_LAW, IDENTITIES)


@dataclass(frozen=True)
class Mutation:
    """A text in files of ``src/mixts`` and what a plausible mistake would put in its place.

    ``count`` says how often it must be there. ``tests`` narrows the subset where a mutation must be
    found by a certain kind of test.
    """

    name: str
    files: str
    old: str
    new: str
    count: int = 1
    tests: tuple[str, ...] = SUBSET


LINEAR, ARMS = "families/_kernels/*.py", "families/_kernels/arms.py"
LAW_ONLY = (JOINT_LAW, IDENTITIES)
TABULAR = "families/_kernels/tabular.py"
TABULAR_IDENTITIES = "tests/statistical/test_tabular_identities.py"
TABULAR_ORACLES = "tests/oracles/test_tabular.py"
IMPOSSIBLE = "tests/unit/families/test_impossible_episodes.py"
LEARNED = "tests/oracles/test_learned_evidence.py"
LEARNING = "tests/unit/learning/test_learn.py"
LEARNING_BAD_INPUT = "tests/unit/learning/test_bad_input.py"
STORE_DECISIONS = "tests/contracts/test_store_decisions.py"
STORE_REWARDS = "tests/contracts/test_store_rewards.py"
STORE_PRIORS = "tests/contracts/test_store_priors.py"
BATCH_WRITER = "tests/unit/service/test_writer.py"
POWER_LOSS = "tests/unit/service/store/test_power_loss.py"

BROKEN = (
    # The predictive density must be taken before the component is updated.
    Mutation(
        "weights updated after the mean: linear", LINEAR,
        """\
        relative[c] -= 0.5 * (log_alpha + error * error / alpha)
        step = error / alpha
        for k in range(d):
            mean[c, k] += step * scratch.reach[k]
""",
        """\
        step = error / alpha
        for k in range(d):
            mean[c, k] += step * scratch.reach[k]
        error = row.y - dot(a[low:], mean[c, low:], high - low)
        relative[c] -= 0.5 * (log_alpha + error * error / alpha)
""",
    ),
    Mutation(
        "weights updated after the counts: Bernoulli", ARMS,
        "math.log((before + seen) / (alpha[k, s] + beta[k, s] + both))",
        "math.log((before + seen + 1) / (alpha[k, s] + beta[k, s] + both + 1))",
        tests=(IDENTITIES,),
    ),
    # One latent state a decision: the marginals of this one are right.
    Mutation(
        "component drawn per arm: decisions", "agents/mixts.py",
        "        chosen = family.best_action(self._rng, theta, sets, available)\n",
        """\
        for arm in range(1, theta.shape[1]):
            other = self._draw_latent(index)
            theta[:, arm] = self.belief.posterior.sample(self._rng, index, other)[:, arm]
        chosen = family.best_action(self._rng, theta, sets, available)
""",
    ),
    Mutation(
        "component drawn per arm: prior draws", "families/arms.py",
        "        return self.prior_marginal(latent).sample(rng)\n",
        """\
        columns = [rng.permutation(latent) for _ in range(self.n_arms)]
        draws = [self.prior_marginal(column).sample(rng) for column in columns]
        return np.stack([draw[:, arm] for arm, draw in enumerate(draws)], axis=1)
""",
    ),
    # The evidence is a density: the width of the predictive counts.
    Mutation(
        "evidence without the log determinant: incremental", LINEAR,
        "log_alpha = LOG_2PI + math.log(alpha)", "log_alpha = LOG_2PI + math.log(prior.noise)",
        count=2,
    ),
    Mutation(
        "evidence without the log determinant: from statistics", LINEAR,
        "out[members[j]] = shared - log_det - 0.5 * q", "out[members[j]] = shared - 0.5 * q",
    ),
    Mutation(
        "evidence without the log determinant: Gaussian arms", ARMS,
        "- math.log1p(v / (noise + n * v))", "- 0.0 * v", tests=(IDENTITIES,),
    ),
    # Statistics are all that is kept: what they miss, nobody knows.
    Mutation(
        "stale statistics: an arm is not counted", ARMS,
        "failures[t, k] += 1", "failures[t, k] += 0",
    ),
    Mutation(
        "stale statistics: a linear task is not counted", LINEAR,
        "fold_row(factor[tasks[i]], row)", "fold_row(factor[tasks[0]], row)",
    ),
    Mutation(
        "stale statistics: a long batch is not looked at", "families/arms.py",
        "            self._recompute(np.unique(tasks))\n", "",
    ),
    Mutation(
        "stale statistics: what was handed out changes later", "belief.py",
        "        self._shared = True\n        return self.posterior.statistics",
        "        return self.posterior.statistics",
    ),
    Mutation(
        "stale posterior: what woke has missed its rewards", "families/_linear_posterior.py",
        "woken = self._evidence(np.array([task]), waking[None], keep=resident)[0]",
        "woken = self._evidence(np.array([task]), waking[None], keep=False)[0]",
        tests=("tests/unit/families/test_linear_pool.py",),
    ),
    Mutation(
        "stale posterior: a run of one action counts as one observation", LINEAR,
        "a, 0, d, prior.noise / m, scratch", "a, 0, d, prior.noise, scratch",
        tests=("tests/unit/families/test_linear_pool.py",),
    ),
    Mutation(
        "stale weight: the bound of a dormant component falls twice as fast", LINEAR,
        "return 0.5 * misfit * misfit /", "return misfit * misfit /",
        tests=("tests/unit/families/test_linear_pool.py",),
    ),
    # A covariance is not its root.
    Mutation(
        "variance for standard deviation: sampler of Gaussian arms", "families/gaussian.py",
        "self.location + np.sqrt(self.spread) * rng.standard_normal",
        "self.location + self.spread * rng.standard_normal", tests=LAW_ONLY,
    ),
    Mutation(
        "variance for standard deviation: linear sampler", LINEAR,
        "        apply_root(slots.root[p, g], x[i])\n",
        "        apply_root(slots.root[p, g], x[i])\n        apply_root(slots.root[p, g], x[i])\n",
        tests=LAW_ONLY,
    ),
    Mutation(
        "variance for standard deviation: rewards", "families/gaussian.py",
        "means + self.noise_std * rng.standard_normal",
        "means + self.noise_std**2 * rng.standard_normal", tests=(JOINT_LAW,),
    ),
    # Episodes of MDPs.
    Mutation(
        "MDP: weights updated after the counts", TABULAR,
        "(before + went) / (transition_total[x, a, s] + left)",
        "(before + went + 1) / (transition_total[x, a, s] + left + 1)",
        tests=(TABULAR_IDENTITIES,),
    ),
    Mutation(
        "MDP: what nothing explains is not refused", TABULAR,
        "impossible = impossible or before == 0.0", "impossible = impossible or before < 0.0",
        tests=(IMPOSSIBLE,),
    ),
    Mutation(
        "MDP: the state after the last step is forgotten", TABULAR,
        "j < lengths[i] - 1 + states.shape[1] - actions.shape[1]", "j < lengths[i] - 1", count=2,
        tests=(TABULAR_ORACLES,),
    ),
    Mutation(
        "MDP: a refused batch leaves its first episodes behind", TABULAR,
        "for e in range(i + 1):", "for e in range(i, i + 1):",
        tests=(IMPOSSIBLE,),
    ),
    Mutation(
        "MDP: ones and zeros swapped where MDPs are drawn", TABULAR,
        "to[pair] = won / (won + lost)", "to[pair] = lost / (won + lost)",
        tests=(TABULAR_IDENTITIES,),
    ),
    Mutation(
        "MDP: another component's counts are drawn from", "families/tabular_posterior.py",
        "draw_parameters(self.prior, rng, self._counts(tasks, latent))",
        "draw_parameters(self.prior, rng, self._counts(tasks, rng.permutation(latent)))",
        tests=(TABULAR_IDENTITIES,),
    ),
    Mutation(
        "plan: the first step is planned for the second", "planning/_kernels.py",
        "policy[m, i, x] = best", "policy[m, max(i - 1, 0), x] = best",
        tests=("tests/oracles/test_planning.py",),
    ),
    Mutation(
        "plan: the last of equal actions is taken", "planning/_kernels.py",
        "                    if value > top:", "                    if value >= top:",
        tests=("tests/oracles/test_planning.py",),
    ),
    # What is learned: the objective and its two halves, the order of tasks, the rule for how many.
    Mutation(
        "learning: pseudo-tasks without a spread of their own", "learning/models/linear.py",
        "(self.centre.full_covariances() + _outer(gap, gap))", "_outer(gap, gap)",
        tests=(f"{LEARNED}::test_nothing_is_left_to_gain[full-2-False]",),
    ),
    Mutation(
        "learning: posterior variance forgotten", "learning/_kernels/gaussian.py",
        "second[s, k] += r * (step * step + rest)", "second[s, k] += r * step * step",
        tests=(f"{LEARNED}::test_nothing_is_left_to_gain[gaussian-2-True]",),
    ),
    Mutation(
        "learning: weights without pseudo-tasks", "learning/em.py",
        "tasks = self.share.sum(axis=0) + model.pseudo", "tasks = self.share.sum(axis=0) + 1e-9",
        tests=(f"{LEARNED}::test_nothing_is_left_to_gain[gaussian-2-True]",),
    ),
    Mutation(
        "learning: half the pull of pseudo-tasks on counts", "learning/models/counts.py",
        "slope += self.pseudo * (expected_logs(self.centre)",
        "slope += self.pseudo / 2 * (expected_logs(self.centre)",
        tests=(f"{LEARNED}::test_nothing_is_left_to_gain[bernoulli-2-False]",),
    ),
    Mutation(
        "learning: tasks summed as they come", "learning/learn.py",
        "return statistics[canonical(statistics)]", "return statistics",
        tests=(f"{LEARNING}::test_the_order_of_tasks_makes_no_difference[full]",),
    ),
    Mutation(
        "learning: folds taken for independent", "learning/select.py",
        "plain * np.sqrt(1 + n_folds / (n_folds - 1))", "plain",
        tests=(f"{LEARNING}::test_one_standard_error_by_hand",),
    ),
    Mutation(
        "learning: support checked when tasks are sorted", "learning/learn.py",
        "    check_options(statistics, options)\n", "",
        tests=(f"{LEARNING_BAD_INPUT}::test_a_support_that_tasks_contradict_is_refused",),
    ),
    Mutation(
        "learning: a safety component of another weight", "learning/learn.py",
        "np.append(prior.weights * (1 - share), share)", "np.append(prior.weights, share)",
        tests=("tests/unit/learning/test_robust_prior.py",),
    ),
    # The decision service: what a reward, a key and a propensity mean.
    Mutation(
        "service: a reward counts twice in one batch", "service/batch.py",
        "            known[decision.seq] = (float(value), late)\n", "", tests=(STORE_REWARDS,),
    ),
    Mutation(
        "service: another value for the same decision is a duplicate", "service/batch.py",
        "or float(given) != known:", "or False:", tests=(STORE_REWARDS,),
    ),
    Mutation(
        "service: late rewards are learned from", "service/batch.py",
        "        if late:\n            self._family.empty_statistics(1)",
        "        if False:\n            self._family.empty_statistics(1)", tests=(STORE_REWARDS,),
    ),
    Mutation(
        "service: a key is answered anew", "service/batch.py",
        "if key in answered or key in seen:", "if key in seen:", tests=(STORE_DECISIONS,),
    ),
    Mutation(
        "service: the propensity of another action", "service/batch.py",
        "float(law[action])", "float(law.max())", tests=(STORE_DECISIONS,),
    ),
    Mutation(
        "service: statistics of another task", "service/batch.py",
        "np.array([row]), observed)", "np.array([0]), observed)", tests=(STORE_REWARDS,),
    ),
    Mutation(
        "service: a refused request makes its task", "service/batch.py",
        "requests[place] = checked_request(operation, self._active.prior, self._rules)",
        "requests[place] = operation\n"
        "                checked_request(operation, self._active.prior, self._rules)",
        tests=(STORE_DECISIONS,),
    ),
    Mutation(
        "service: a known prior is activated again", "service/decider.py",
        "if is_new or transaction.active_version() is None:", "if True:", tests=(STORE_PRIORS,),
    ),
    Mutation(
        "service: a new prior is stored, and activated apart", "service/decider.py",
        "        self._transact(lambda transaction: self._begin_with(transaction, prior))\n",
        """\
        version, is_new = self._transact(lambda transaction: self._store(transaction, prior))
        if is_new or self.store.active_version() is None:
            self._transact(lambda transaction: self._activate(transaction, version, prior))
""",
        tests=(STORE_PRIORS,),
    ),
    # Who writes batches, and that none is forgotten.
    Mutation(
        "service: a loop that is turned away forgets", "service/writer.py",
        "                self._wake()  # the thread may just have found that nothing waits",
        "                pass", tests=(BATCH_WRITER,),
    ),
    Mutation(
        "service: a failure in the loop is not looked into", "service/writer.py",
        "            self._changed.notify()  # the thread begins to probe the store\n", "",
        tests=(BATCH_WRITER,),
    ),
    Mutation(
        "service: a batch that would wait is lost", "service/writer.py",
        "        except WouldWaitError:\n            self._put_back(batch)\n",
        "        except WouldWaitError:\n", tests=(BATCH_WRITER,),
    ),
    Mutation(
        "service: large batches hold up the loop", "service/writer.py",
        "self._schedule(call_soon if submission.is_small else None)",
        "self._schedule(call_soon)",
        tests=(BATCH_WRITER,),
    ),
    Mutation(
        "service: damaged statistics are decided on", "service/versions.py",
        "            decoded.check()\n", "            pass\n", tests=(STORE_DECISIONS,),
    ),
    Mutation(
        "service: acknowledged before it is synced", "service/store/_sqlite_log.py",
        'writer.pragma("synchronous", self._synchronous)',
        'writer.pragma("synchronous", "NORMAL")', tests=(POWER_LOSS,),
    ),
    Mutation(
        "service: a new file has its name before it is synced", "service/store/_sqlite_file.py",
        'connection.pragma("synchronous", "FULL")', 'connection.pragma("synchronous", "OFF")',
        tests=(POWER_LOSS,),
    ),
    Mutation(
        "service: a file that is open is looked at", "service/store/_sqlite_log.py",
        "if _identity(path) not in _OPEN and not _sqlite_file.inspect(path):",
        "if not _sqlite_file.inspect(path):", tests=("tests/unit/service/store/test_locks.py",),
    ),
)  # fmt: skip

TWICE = ("decisions", "incremental", "sampler of Gaussian arms")
"""What the identities must find on their own, where references are out of reach."""

MUTATIONS = BROKEN + tuple(
    replace(mutation, name=f"{mutation.name}, by identities", tests=(IDENTITIES,))
    for mutation in BROKEN
    if mutation.name.endswith(TWICE)
)
