"""Faults of the decision service: rewards, keys, propensities, priors, writing and syncing."""

from __future__ import annotations

from typing import Any

from msgspec import structs

from tests.faults.catalogue import fault
from tests.faults.inject import edit, replace

DECISIONS = "tests/contracts/test_store_decisions.py"
REWARDS = "tests/contracts/test_store_rewards.py"
POLICIES = "tests/contracts/test_store_policies.py"
SILENCE = "tests/contracts/test_store_silence.py"
PRIORS = "tests/contracts/test_store_priors.py"
LONG = "tests/contracts/test_store_long_decisions.py"
WRITER = "tests/unit/service/test_writer.py"
CONNECTION = "tests/unit/service/http/test_connection.py"
STREAMS = "tests/properties/test_connections.py"
POWER_LOSS = "tests/unit/service/store/test_power_loss.py"
DAMAGED_LOG = "tests/unit/service/store/test_damaged_log.py"
CHECKSUMS = "tests/unit/service/store/test_row_checksums.py"
LOG = "tests/unit/service/store/test_log.py"

# -- rewards --------------------------------------------------------------------------------------

fault(
    "a reward that comes twice in one batch counts twice",
    f"{REWARDS}::test_a_reward_twice_in_one_batch[sqlite]",
    edit("mixts.service.outcomes:Outcomes._log", "self._known[decision.seq] = known", "pass"),
)
fault(
    "another value for the same decision is taken for a duplicate",
    f"{REWARDS}::test_a_reward_counts_once[sqlite]",
    replace(
        "mixts.service.outcomes:_duplicate",
        lambda duplicate: (
            lambda decision, value, known, late: duplicate(decision, known, known, late)
        ),
    ),
)


def late_rewards_learned(observe: Any) -> Any:
    def wrong(self: Any, decision: Any, features: Any, value: float, *, late: bool) -> None:
        observe(self, decision, features, value, late=False)

    return wrong


fault(
    "late rewards are learned from",
    f"{REWARDS}::test_late_rewards_are_logged_and_not_learned[sqlite]",
    replace("mixts.service.locked:LockedTasks.observe", late_rewards_learned),
)
fault(
    "a reward changes the statistics of another task",
    f"{REWARDS}::test_a_rebuild_finds_the_same_bits[sqlite-bernoulli]",
    edit(
        "mixts.service.locked:LockedTasks.observe",
        "self._statistics.observe(np.array([row]), observed)",
        "self._statistics.observe(np.array([0]), observed)",
    ),
)

# -- silence --------------------------------------------------------------------------------------

fault(
    "silence counts again after a reward has come",
    f"{SILENCE}::test_a_window_ends_once_in_two_deciders[postgres]",
    edit(
        "mixts.service.outcomes:Outcomes._expire",
        "decision.seq in self._known or not self._is_missed(decision)",
        "not self._is_missed(decision)",
    ),
)
fault(
    "a reward after the default is learned from",
    f"{SILENCE}::test_a_reward_after_the_default_is_late_and_kept_beside_it[sqlite]",
    edit(
        "mixts.service.outcomes:Outcomes._reward",
        "tasks.observe(decision, features, value, late=True)",
        "tasks.observe(decision, features, value, late=False)",
    ),
)
fault(
    "a late reward replaces a default that was not written yet",
    f"{SILENCE}::test_a_late_reward_before_the_default_was_written[sqlite]",
    edit(
        "mixts.service.outcomes:Outcomes._reward",
        "known is None and not self._is_missed(decision)",
        "known is None",
    ),
)
fault(
    "a decision that was never shown waits for its reward",
    f"{SILENCE}::test_deferred_decisions_do_not_wait[sqlite-ids]",
    edit(
        "mixts.service.store.sqlite:SQLiteTransaction.find_waiting",
        "self._execute_many(_WAITING, asked)",
        """
        self._execute_many(
            _WAITING.replace("(d.deferred = 0 OR a.at IS NOT NULL) AND", ""), asked
        )
        """,
    ),
)

# -- decisions ------------------------------------------------------------------------------------

fault(
    "a request whose key has a decision is decided again",
    f"{DECISIONS}::test_a_key_stands_for_one_decision[sqlite]",
    replace(
        "mixts.service.batch:_without_repeats",
        lambda without: lambda requests, answered: without(requests, {}),
    ),
)
fault(
    "a decision has the propensity of another action",
    f"{DECISIONS}::test_the_action_is_drawn_from_the_logged_law[sqlite]",
    edit("mixts.service.batch:Batch._slate", "float(law[action])", "float(law.max())"),
)
fault(
    "a refused request creates its task",
    f"{DECISIONS}::test_a_refused_request_leaves_no_trace[sqlite]",
    edit(
        "mixts.service.batch:Batch._check_requests",
        "requests[place] = checked_request(operation, self._active.prior, floor)",
        """
        requests[place] = operation
        checked_request(operation, self._active.prior, floor)
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
        "mixts.service.batch:Batch._decide_groups",
        "None if waiting is None else waiting.of(rows)",
        "None",
    ),
)
fault(
    "the second request of a task in a batch does not know of the first",
    f"{POLICIES}::test_requests_of_one_batch_know_of_each_other[sqlite]",
    edit(
        "mixts.service.batch:Batch._decide_groups",
        "_groups(requests, one_a_task=one_a_task)",
        "_groups(requests, one_a_task=False)",
    ),
)
fault(
    "a decision waits although its reward is in the same batch",
    f"{POLICIES}::test_a_reward_of_the_same_batch_ends_the_wait[sqlite]",
    edit(
        "mixts.service.batch:Batch._find_waiting",
        "{reward.decision for reward in self._changes.rewards}",
        "set()",
    ),
)
fault(
    "the window of a click's delay has no end",
    "tests/contracts/test_store_click_delay.py::"
    "test_the_logged_propensity_counts_the_silence[sqlite]",
    edit(
        "mixts.service.outcomes:Rules.arrived",
        "math.expm1(-self.window_us / self.click_delay_us)",
        "-1.0",
    ),
)
fault(
    "a decision waits after the reward window",
    f"{POLICIES}::test_after_the_reward_window_nothing_waits[sqlite]",
    edit(
        "mixts.service.batch:Batch._find_waiting",
        "_FOREVER if rules.window_us is None else rules.window_us",
        "_FOREVER",
    ),
)
fault(
    "a repeated decision has the policy of today",
    f"{POLICIES}::test_every_decision_is_logged_with_its_policy[sqlite-ids]",
    replace(
        "mixts.service.batch:Batch._logged_result",
        lambda logged_result: (
            lambda self, key, digest, logged, result: logged_result(
                self, key, digest, structs.replace(logged, policy=self._rules.policy.name), result
            )
        ),
    ),
)

# -- priors ---------------------------------------------------------------------------------------


def activate_always(_: Any) -> Any:
    def wrong(self: Any, transaction: Any, prior: Any) -> None:
        version, _ = self._store(transaction, prior)
        self._activate(transaction, version, prior)

    return wrong


fault(
    "a prior that the store knows is activated again",
    f"{PRIORS}::test_the_store_remembers_its_prior[sqlite]",
    replace("mixts.service.decider:Decider._begin_with", activate_always),
)
fault(
    "a new prior is stored in one transaction and activated in another",
    f"{PRIORS}::test_a_start_that_fails_leaves_no_prior_behind[sqlite-0]",
    edit(
        "mixts.service.decider:Decider._begin_with_prior",
        "self._transact(lambda transaction: self._begin_with(transaction, prior, force))",
        """
        version, is_new = self._transact(lambda transaction: self._store(transaction, prior))
        if is_new or self.store.active_version() is None:
            self._transact(lambda transaction: self._activate(transaction, version, prior))
        """,
    ),
)

# -- the writer of batches ------------------------------------------------------------------------

fault(
    "an event loop that may not write does not wake the writer's thread",
    f"{WRITER}::test_the_thread_writes_if_the_loop_finds_it_writing",
    edit("mixts.service.writer:BatchWriter._write_in_loop", "self._wake()", "pass"),
)
fault(
    "the writer's thread does not probe the store after a failure in the event loop",
    f"{WRITER}::test_the_thread_probes_the_store_after_a_failure_in_the_loop",
    edit("mixts.service.writer:BatchWriter._note_failure", "self._changed.notify()", "pass"),
)
fault(
    "a batch that would wait is lost",
    f"{WRITER}::test_a_batch_that_would_wait_is_put_back",
    replace(
        "mixts.service.writer:BatchWriter._put_back",
        lambda put_back: lambda self, batch: put_back(self, []),
    ),
)
fault(
    "the event loop writes large batches",
    f"{WRITER}::test_the_thread_writes_large_batches",
    edit(
        "mixts.service.writer:BatchWriter.submit",
        "call_soon if submission.is_small else None",
        "call_soon",
    ),
)

# -- files ----------------------------------------------------------------------------------------

fault(
    "a decision is acknowledged before it is synced",
    f"{POWER_LOSS}::test_nothing_acknowledged_is_lost",
    replace(
        "mixts.service.store._sqlite_log:Connections.__init__",
        lambda init: lambda self, path, vfs, synchronous: init(self, path, vfs, "NORMAL"),
    ),
)
fault(
    "a new file has its name before it is synced",
    f"{POWER_LOSS}::test_nothing_acknowledged_is_lost",
    edit(
        "mixts.service.store._sqlite_file:create",
        "use_log(connection, path)",
        """
        use_log(connection, path)
        connection.pragma("synchronous", "OFF")
        """,
    ),
)
fault(
    "a file that this process has open is inspected",
    "tests/unit/service/store/test_locks.py::test_locks_are_held_until_the_last_store_is_closed",
    edit(
        "mixts.service.store._sqlite_log:Connections.__init__",
        "_identity(path) not in _OPEN",
        "True",
    ),
)

# -- damaged files --------------------------------------------------------------------------------

fault(
    "everything behind a flipped bit of the log is dropped",
    f"{DAMAGED_LOG}::test_a_flipped_bit_is_refused_and_everything_is_left_as_it_is[False]",
    edit("mixts.service.store._sqlite_wal:Log.damage", "proofs.any()", "False"),
)
fault(
    "a torn transaction after a power loss is taken for damage",
    f"{DAMAGED_LOG}::test_any_torn_end_opens_after_a_power_loss",
    edit(
        "mixts.service.store._sqlite_wal:Log.damage",
        "np.append(False, is_commit[:-1] & fits[1:])",
        "fits.copy()",
    ),
)
fault(
    "frames of an older log are taken for damage",
    f"{DAMAGED_LOG}::test_frames_of_an_older_log_mean_nothing",
    edit(
        "mixts.service.store._sqlite_wal:Log.frames",
        'salts = (chunk[:, 8:16] == np.frombuffer(self._salts, "u1")).all(axis=1)',
        "salts = np.ones(len(chunk), bool)",
    ),
)
fault(
    "rows are not compared with their checksums",
    f"{CHECKSUMS}::test_no_flipped_bit_in_a_decision_passes_the_check[decisions]",
    edit("mixts.service.store._sqlite_rows:_check", "checksum(*values) != stored", "False"),
)
fault(
    "missing rows are not noticed",
    f"{CHECKSUMS}::test_a_missing_row_is_noticed",
    edit("mixts.service.store._sqlite_rows:_check", "number != after + 1", "False"),
)
fault(
    "the log keeps a full disk full",
    f"{LOG}::test_the_log_gives_its_room_back_when_the_disk_is_full",
    edit(
        "mixts.service.store._sqlite_log:WriteAheadLog.note_full_disk",
        "self._is_full = True",
        "self._is_full = False",
    ),
)
fault(
    "a seed has the same luck after every restart",
    f"{DECISIONS}::test_a_seed_has_other_luck_in_every_life_of_a_store[sqlite]",
    edit("mixts.service.decider:_generator_of_life", "life == 0", "life >= 0"),
)

# -- connections ----------------------------------------------------------------------------------

fault(
    "a half-closed client is taken for one that is gone",
    f"{CONNECTION}::test_a_half_closed_client_gets_its_answer",
    edit(
        "mixts.service.http.connection:Connection.eof_received",
        "return bool(self._requests)",
        "return False",
    ),
)
fault(
    "trailers become headers",
    f"{CONNECTION}::test_trailers_are_refused_with_their_request",
    edit(
        "mixts.service.http.connection:Connection.on_header",
        "request.scope is not None",
        "False",
    ),
)
fault(
    "a connection has no deadline before its first byte",
    f"{CONNECTION}::test_a_silent_connection_is_closed",
    edit(
        "mixts.service.http.connection:Connection.connection_made",
        "self.deadline = self._now() + self._limits.seconds",
        "pass",
    ),
)
fault(
    "a response that nobody reads has no deadline",
    f"{CONNECTION}::test_a_response_that_nobody_reads_is_given_up",
    edit(
        "mixts.service.http.connection:Connection.pause_writing",
        "self.deadline = self._now() + self._limits.seconds",
        "pass",
    ),
)
fault(
    "a request that was answered early gets a second response",
    f"{CONNECTION}::test_a_request_has_one_response",
    edit(
        "mixts.service.http.connection:Connection._refuse",
        "is_answered = self._reading is not None and self._reading.is_answered",
        "is_answered = False",
    ),
)
fault(
    "the connection that came first makes room, though it is busy",
    f"{CONNECTION}::test_the_connection_that_waited_longest_makes_room",
    edit(
        "mixts.service.http.connections:Connections.touch",
        "self._all.move_to_end(connection)",
        "pass",
    ),
)
fault(
    "an address may take all connections",
    f"{CONNECTION}::test_an_address_has_a_share_of_the_connections",
    edit(
        "mixts.service.http.connections:Connections.add",
        "self.limits.address_connections",
        "self._max",
    ),
)
fault(
    "a stream that ends in no HTTP keeps its connection for ever",
    f"{STREAMS}::test_requests_arrive_whole_and_are_answered_in_order",
    edit(
        "mixts.service.http.connection:Connection._parse",
        "self._go_on()",
        "if not self._is_ending: self._go_on()",
    ),
)
fault(
    "the end of a body that arrives while a part is taken is lost",
    f"{STREAMS}::test_requests_arrive_whole_and_are_answered_in_order",
    edit(
        "mixts.service.http.connection:Request.receive",
        "not is_last",
        "not self.is_complete",
    ),
)
fault(
    "a client loses the time in which nothing of its request is received",
    f"{STREAMS}::test_requests_arrive_whole_and_are_answered_in_order",
    edit(
        "mixts.service.http.connection:Connection.read_on",
        "self._reading.due += self._now() - self._paused_at",
        "pass",
    ),
)
fault(
    "the event loop decodes large bodies without a rest",
    "tests/unit/service/test_prior_limits.py::test_the_event_loop_rests_between_two_pieces",
    edit("mixts.service.http.app:Turns.rest", "perf_counter() - self._since", "0"),
)
fault(
    "a long decision is logged although its task has changed",
    f"{LONG}::test_a_changed_task_is_decided_again[sqlite]",
    edit("mixts.service.aside:Aside._is_valid", "is_last or mark == self._mark", "True"),
)
fault(
    "a task that keeps changing is never decided",
    f"{LONG}::test_a_task_that_keeps_changing_is_decided[sqlite]",
    edit(
        "mixts.service.aside:Aside._is_valid", "is_last or mark == self._mark", "mark == self._mark"
    ),
)
fault(
    "a writer that closes forgets long decisions",
    f"{LONG}::test_closing_does_not_wait_for_long[sqlite]",
    edit("mixts.service.writer:BatchWriter.close", "self._drop(late, _CLOSED)", "pass"),
)
fault(
    "an arm that is taken once is shown again if its reward came late",
    "tests/contracts/test_store_once.py::"
    "test_an_arm_whose_reward_came_late_or_never_was_taken[sqlite]",
    edit(
        "mixts.service.batch:Batch._untaken",
        "self._transaction.find_taken(list(name_of)) if names else ()",
        "()",
    ),
)
