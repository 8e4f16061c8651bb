"""Faults of the decision service: rewards, keys, propensities, priors, writing and syncing."""

from __future__ import annotations

from typing import Any

from msgspec import structs

from tests.faults.catalogue import fault
from tests.faults.inject import edit, replace

DECISIONS = "serve/tests/contracts/test_store_decisions.py"
REWARDS = "serve/tests/contracts/test_store_rewards.py"
POLICIES = "serve/tests/contracts/test_store_policies.py"
TRIALS = "serve/tests/contracts/test_store_trials.py"
SILENCE = "serve/tests/contracts/test_store_silence.py"
PRIORS = "serve/tests/contracts/test_store_priors.py"
WRITER = "serve/tests/unit/test_writer.py"
SERVER = "serve/tests/unit/http/test_server.py"
POWER_LOSS = "serve/tests/unit/store/test_power_loss.py"
CHECKSUMS = "serve/tests/unit/store/test_row_checksums.py"
LOG = "serve/tests/unit/store/test_log.py"
INGEST = "serve/tests/contracts/test_store_ingest.py"
SOURCES = "serve/tests/unit/test_sources.py"

# -- rewards --------------------------------------------------------------------------------------

fault(
    "a reward that comes twice in one batch counts twice",
    f"{REWARDS}::test_a_reward_twice_in_one_batch[sqlite]",
    edit("mixts_serve.tasks:Outcomes._log", "self._known[decision.seq] = reward", "pass"),
)
fault(
    "another value for the same decision is taken for a duplicate",
    f"{REWARDS}::test_a_reward_counts_once[sqlite]",
    replace(
        "mixts_serve.tasks:_duplicate",
        lambda duplicate: (
            lambda decision, value, known, late: duplicate(decision, known, known, late)
        ),
    ),
)


def late_rewards_learned(observe: Any) -> Any:
    def wrong(self: Any, decision: Any, value: float, tasks: Any, *, late: bool) -> None:
        observe(self, decision, value, tasks, late=False)

    return wrong


fault(
    "late rewards are learned from",
    f"{REWARDS}::test_late_rewards_are_logged_and_not_learned[sqlite]",
    replace("mixts_serve.tasks:Outcomes._observe", late_rewards_learned),
)
fault(
    "a reward changes the statistics of another task",
    f"{REWARDS}::test_a_rebuild_finds_the_same_bits[sqlite-bernoulli]",
    edit(
        "mixts_serve.tasks:LockedTasks.observe_many",
        "self._statistics.observe(np.array(rows), observed)",
        "self._statistics.observe(np.zeros_like(rows), observed)",
    ),
)

# -- shards ---------------------------------------------------------------------------------------

SHARDS = "serve/tests/contracts/test_store_shards.py"

fault(
    "an id does not lead to the shard of its task",
    f"{SHARDS}::test_ids_name_the_slot_of_their_task[sqlite]",
    edit("mixts_serve.batch:new_id", "slot_of(task)", "os.urandom(2)"),
)
fault(
    "a shard decides for tasks of others",
    f"{SHARDS}::test_a_shard_refuses_the_tasks_of_others[sqlite]",
    edit("mixts_serve.batch:Batch._check_requests", "self._rules.shard.check(task)", "pass"),
)
fault(
    "results of several shards are not in the order of the list",
    "serve/tests/unit/test_shards.py::test_lists_are_divided_and_joined_in_their_order[blocking]",
    edit(
        "mixts_serve.sharded:_joined",
        "[found[i] for i in range(len(found))]",
        "list(found.values())",
    ),
)

# -- silence --------------------------------------------------------------------------------------

fault(
    "silence counts again after a reward has come",
    f"{SILENCE}::test_a_window_ends_once_in_two_deciders[postgres]",
    edit(
        "mixts_serve.tasks:Outcomes._expire",
        "decision.seq in self._known or not self._is_missed(decision)",
        "not self._is_missed(decision)",
    ),
)
fault(
    "a reward after the default is learned from",
    f"{SILENCE}::test_a_reward_after_the_default_is_late_and_kept_beside_it[sqlite]",
    edit(
        "mixts_serve.tasks:Outcomes._reward",
        "self._observe(decision, value, tasks, late=True)",
        "self._observe(decision, value, tasks, late=False)",
    ),
)
fault(
    "a late reward replaces a default that was not written yet",
    f"{SILENCE}::test_a_late_reward_before_the_default_was_written[sqlite]",
    edit(
        "mixts_serve.tasks:Outcomes._reward",
        "known is None and not self._is_missed(decision)",
        "known is None",
    ),
)
fault(
    "a decision that was never shown waits for its reward",
    f"{SILENCE}::test_deferred_decisions_do_not_wait[sqlite-ids]",
    edit(
        "mixts_serve.store.sqlite:SQLiteTransaction.find_waiting",
        "_WAITING",
        '_WAITING.replace("(d.deferred = 0 OR a.at IS NOT NULL) AND", "")',
    ),
)

# -- decisions ------------------------------------------------------------------------------------

fault(
    "a request whose key has a decision is decided again",
    f"{DECISIONS}::test_a_key_stands_for_one_decision[sqlite]",
    replace(
        "mixts_serve.batch:_without_repeats",
        lambda without: lambda requests, answered: without(requests, {}),
    ),
)
fault(
    "a decision has the propensity of another action",
    f"{DECISIONS}::test_the_action_is_drawn_from_the_logged_law[sqlite]",
    edit("mixts_serve.batch:Batch._slate", "float(law[action])", "float(law.max())"),
)
fault(
    "a refused request creates its task",
    f"{DECISIONS}::test_a_refused_request_leaves_no_trace[sqlite]",
    edit(
        "mixts_serve.batch:Batch._check_requests",
        "asked[place] = self._checked(operation)",
        """
        self._transaction.lock_tasks([task], [], self._now)
        asked[place] = self._checked(operation)
        """,
    ),
)
fault(
    "decisions are made from damaged statistics",
    f"{DECISIONS}::test_damaged_statistics_are_not_decided_on[sqlite-counts0]",
    edit("mixts.families.statistics:Statistics.decode", "decoded.check()", ""),
)

# -- policies -------------------------------------------------------------------------------------

fault(
    "decisions that wait for their rewards do not reach the agent",
    f"{POLICIES}::test_decisions_that_wait_change_the_law[sqlite]",
    edit(
        "mixts_serve.batch:_choose",
        "None if waiting is None else waiting.of(rows.tolist())",
        "None",
    ),
)
fault(
    "the second request of a task in a batch does not know of the first",
    f"{POLICIES}::test_requests_of_one_batch_know_of_each_other[sqlite]",
    edit(
        "mixts_serve.batch:Batch._decide_on",
        "_groups(asked, one_a_task=one_a_task)",
        "_groups(asked, one_a_task=False)",
    ),
)
fault(
    "tasks that were born before a canary began try it",
    f"{TRIALS}::test_a_canary_decides_for_a_share_of_the_new_tasks[sqlite]",
    edit("mixts_serve.trials:Sides.of", "first_at < now.since", "False"),
)
fault(
    "the control group is decided by what is known of the task",
    f"{TRIALS}::test_the_bestseller_is_decided_as_if_every_task_were_new[sqlite]",
    edit(
        "mixts_serve.batch:Batch._decided",
        "Baseline(prior, len(statistics), self._rng, holdback)",
        "Baseline(prior, statistics, self._rng, holdback)",
    ),
)
fault(
    "a metric may change its value",
    f"{TRIALS}::test_metrics_come_with_a_reward_or_later[sqlite]",
    edit("mixts_serve.tasks:Outcomes._new_metrics", "known != value", "False"),
)
fault(
    "a decision waits although its reward is in the same batch",
    f"{POLICIES}::test_a_reward_of_the_same_batch_ends_the_wait[sqlite]",
    edit(
        "mixts_serve.batch:Batch._find_waiting",
        "{reward.decision for reward in self._changes.rewards}",
        "set()",
    ),
)
fault(
    "a decision waits after the reward window",
    f"{POLICIES}::test_a_reward_window_that_is_set_later_counts_for_earlier_decisions[sqlite]",
    edit(
        "mixts_serve.batch:Batch._find_waiting",
        "_FOREVER if rules.window_us is None else rules.window_us",
        "_FOREVER",
    ),
)
fault(
    "a repeated decision has the policy of today",
    f"{POLICIES}::test_every_decision_is_logged_with_its_policy[sqlite-ids]",
    replace(
        "mixts_serve.batch:Batch._logged_result",
        lambda logged_result: (
            lambda self, key, digest, logged, result: logged_result(
                self, key, digest, structs.replace(logged, policy=self._rules.policy.name), result
            )
        ),
    ),
)

# -- priors ---------------------------------------------------------------------------------------


def activate_always(_: Any) -> Any:
    def wrong(self: Any, transaction: Any, prior: Any, force: bool) -> None:
        version, _ = self._add_version(transaction, prior)
        self._activate(transaction, version, prior)

    return wrong


fault(
    "a prior that the store knows is activated again",
    f"{PRIORS}::test_the_store_remembers_its_prior[sqlite]",
    replace("mixts_serve.decider:Decider._activate_if_new", activate_always),
)
fault(
    "a new prior is stored in one transaction and activated in another",
    f"{PRIORS}::test_a_start_that_fails_leaves_no_prior_behind[sqlite-0]",
    edit(
        "mixts_serve.decider:Decider._begin",
        "self._transact(lambda transaction: self._activate_if_new(transaction, prior, force))",
        """
        version, is_new = self._transact(lambda transaction: self._add_version(transaction, prior))
        if is_new or self.store.active_version() is None:
            self._transact(lambda transaction: self._activate(transaction, version, prior))
        """,
    ),
)

# -- the writer of batches ------------------------------------------------------------------------

fault(
    "a failed store is not probed",
    f"{WRITER}::test_the_thread_probes_the_store_after_a_failure",
    edit(
        "mixts_serve.writer:BatchWriter._wait", "PROBE_SECONDS if self._failure else None", "None"
    ),
)
fault(
    "a batch that is put back is lost",
    f"{WRITER}::test_a_bad_submission_does_not_affect_the_rest_of_its_batch",
    edit(
        "mixts_serve.writer:BatchWriter._put_back",
        "heapq.heappush(self._queue, submission)",
        "pass",
    ),
)
fault(
    "small submissions wait for large ones that came before them",
    f"{WRITER}::test_small_submissions_do_not_wait_for_large_ones",
    edit(
        "mixts_serve.writer:BatchWriter._put",
        "self._shared_work + submission.size, next(self._numbers)",
        "0, next(self._numbers)",
    ),
)
fault(
    "small submissions keep a large one waiting for ever",
    f"{WRITER}::test_a_large_submission_is_not_kept_waiting_for_ever",
    edit(
        "mixts_serve.writer:BatchWriter._put",
        "self._shared_work + submission.size, next(self._numbers)",
        "submission.size, next(self._numbers)",
    ),
)
fault(
    "an event loop writes while the thread writes",
    f"{WRITER}::test_the_event_loop_writes_when_the_thread_has_written",
    edit(
        "mixts_serve.writer:BatchWriter._write_in_loop",
        "self._is_writing",
        "False",
    ),
)
fault(
    "a writer that closes forgets what waits",
    f"{WRITER}::test_closing_writes_what_waits",
    edit("mixts_serve.writer:BatchWriter._run", "is_closed and not self._queue", "is_closed"),
)

# -- files ----------------------------------------------------------------------------------------

fault(
    "a decision is acknowledged before it is synced",
    f"{POWER_LOSS}::test_nothing_acknowledged_is_lost",
    replace(
        "mixts_serve.store._sqlite_log:FileConnections.__init__",
        lambda init: lambda self, path, vfs, synchronous: init(self, path, vfs, "NORMAL"),
    ),
)
fault(
    "a new file has its name before it is synced",
    f"{POWER_LOSS}::test_acknowledged_operations_after_a_kill_survive_a_power_loss",
    edit(
        "mixts_serve.store._sqlite_file:create",
        "use_log(connection, path)",
        """
        use_log(connection, path)
        connection.pragma("synchronous", "OFF")
        """,
    ),
)
fault(
    "a file that this process has open is inspected",
    "serve/tests/unit/store/test_locks.py::test_locks_are_held_until_the_last_store_is_closed",
    edit(
        "mixts_serve.store._sqlite_log:FileConnections.__init__",
        "_identity(path) not in _OPEN",
        "True",
    ),
)

# -- damaged files --------------------------------------------------------------------------------

fault(
    "rows are not compared with their checksums",
    f"{CHECKSUMS}::test_no_flipped_bit_in_a_decision_passes_the_check[decisions]",
    edit("mixts_serve.store.sqlite:_wrong_rows", "checksum(tuple(values)) != stored", "False"),
)
fault(
    "missing rows are not noticed",
    f"{CHECKSUMS}::test_a_missing_row_is_noticed[1000]",
    edit("mixts_serve.store.sqlite:_wrong_rows", "number != done + 1", "False"),
)
fault(
    "the log keeps a full disk full",
    f"{LOG}::test_the_log_gives_its_room_back_when_the_disk_is_full",
    edit(
        "mixts_serve.store._sqlite_log:WriteAheadLog.note_full_disk",
        "self._is_full = True",
        "self._is_full = False",
    ),
)
fault(
    "a seed has the same luck after every restart",
    f"{DECISIONS}::test_a_seed_has_other_luck_in_every_life_of_a_store[sqlite]",
    edit("mixts_serve.decider:_generator_of_life", "life == 0", "life >= 0"),
)

# -- connections ----------------------------------------------------------------------------------

fault(
    "a trailer is taken for a header",
    f"{SERVER}::test_a_token_in_a_trailer_is_none",
    edit("mixts_serve.http.connections:Connection.on_header", "self._is_in_head", "True"),
)
fault(
    "a compressed body in chunks is read as plain",
    "serve/tests/unit/http/test_limits.py::test_a_body_in_another_coding_is_refused",
    edit(
        "mixts_serve.http.protocol:read_headers",
        'used.get(b"transfer-encoding", b"chunked").lower()',
        'b"chunked"',
    ),
)
fault(
    "requests that are being answered do not hold the end of the service up",
    f"{SERVER}::test_what_was_accepted_is_answered_within_bounds",
    edit("mixts_serve.http.server:_config", "STOP_SECONDS", "0.01"),
)
fault(
    "the event loop decodes large bodies without a rest",
    "serve/tests/unit/test_prior_limits.py::test_the_event_loop_rests_between_two_pieces",
    edit("mixts_serve.http.app:Turns.rest", "perf_counter() - self._since", "0"),
)
fault(
    "an arm that is taken once is shown again if its reward came late",
    "serve/tests/contracts/test_store_once.py::"
    "test_an_arm_whose_reward_came_late_or_never_was_taken[sqlite]",
    edit(
        "mixts_serve.batch:Batch._untaken",
        "self._transaction.find_taken(list(name_of)) if names else ()",
        "()",
    ),
)

# -- ingest ---------------------------------------------------------------------------------------

fault(
    "the place of a file is after rewards that wait",
    f"{INGEST}::test_an_end_in_any_transaction_loses_nothing[sqlite-False]",
    edit("mixts_serve.ingest:Ingest._places", "places = dict(self._read)", "return self._read"),
)
fault(
    "rewards of a batch are written before its decisions",
    "serve/tests/unit/test_ingest.py::test_standard_input_is_acknowledged",
    edit("mixts_serve.ingest:Ingest._perform", "(decisions, rewards)", "(rewards, decisions)"),
)
fault(
    "a locked task is refused for good",
    f"{INGEST}::test_a_locked_task_is_tried_again[postgres]",
    edit("mixts_serve.ingest:Ingest._batch", "isinstance(result, TaskLockedError)", "False"),
)
fault(
    "the reward window of the service is not followed",
    f"{INGEST}::test_the_reward_window_of_the_service_applies[sqlite]",
    edit("mixts_serve.rules:Rules.of", "source.note(_NOTE) or _NO_WINDOW", "_NO_WINDOW"),
)
fault(
    "half a line is read",
    f"{SOURCES}::test_a_last_line_counts_when_it_is_whole",
    edit("mixts_serve.sources:Lines._split", 'last.kind == "row"', "False"),
)
fault(
    "another file goes on from the place of the first",
    f"{SOURCES}::test_another_file_under_the_same_name_is_noticed[replaced]",
    edit("mixts_serve.sources:Source.parts", "note.digest != self._digest(begin.offset)", "False"),
)

# -- facts of the person, and imagined outcomes ---------------------------------------------------

CONTEXT = "serve/tests/contracts/test_store_context.py"

fault(
    "facts are not part of what a key stands for",
    f"{CONTEXT}::test_a_key_stands_for_the_same_facts[sqlite]",
    edit(
        "mixts_serve.offers:request_digest",
        "_canonical(plain_facts(request.context)) or None",
        "None",
    ),
)
fault(
    "people with the same rows share the facts of the first",
    f"{CONTEXT}::test_what_is_not_known_counts_as_the_average_person",
    edit(
        "mixts_serve.store.tables:ActionSet.of",
        'head + body + (names or "").encode() + (facts or "").encode()',
        'head + body + (names or "").encode()',
    ),
)
fault(
    "an export has the score of the first action",
    f"{CONTEXT}::test_an_export_has_facts_and_scores_to_learn_from[sqlite]",
    edit(
        "mixts_serve.store.export:_raw_values",
        "{name: each[action] for name, each in known.scores.items()}",
        "{name: each[0] for name, each in known.scores.items()}",
    ),
)
fault(
    "what is imagined of an action is that it earned nothing",
    "serve/tests/contracts/test_store_imagine.py::test_what_is_imagined_is_what_would_be",
    edit("mixts_serve.imagine:imagined", "np.array([reward])", "np.array([0.0])"),
)
fault(
    "a cell of arms by kind counts the expected reward as earned",
    "serve/tests/contracts/test_store_agreement.py",
    edit(
        "mixts_serve.agreement:VersionWatch.add",
        "np.multiply.outer(bet.kinds, (1.0, bet.mean, bet.value))",
        "np.multiply.outer(bet.kinds, (1.0, bet.mean, bet.mean))",
    ),
)
