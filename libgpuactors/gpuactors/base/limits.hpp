// Limits of the library that users meet or that depend on each other; limits of a single source are defined there.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>

namespace gpuactors::limits {

/// Largest serialized user message, in bytes; bulk data goes through `put`.
inline constexpr std::size_t payload_bytes = 4U << 20;

/// Largest request of a program to its broker in bytes, without a user message in it. The broker may send all of it on
/// to a node.
inline constexpr std::size_t request_bytes = 16U << 20;

/// Bytes of state that an actor may save for its restart. Its node and the broker keep that state, and send it with the
/// order to start the actor.
inline constexpr std::size_t saved_bytes = 256U << 10;

/// Longest name of an actor, node, type, method, label or resource, in characters.
inline constexpr std::size_t name_length = 128;

/// Longest release of a program that the broker keeps and shows, in bytes; the rest of a longer one is dropped.
inline constexpr std::size_t release_bytes = 64;

/// Metrics that one actor may publish, the longest name of a metric in characters, the longest text about it in bytes,
/// the bounds of a histogram; and the bytes of metrics of all actors in one answer about the state of a cluster, and
/// again of all ended actors: those of further actors are left out.
inline constexpr std::size_t metrics_per_actor = 64;
inline constexpr std::size_t metric_name_length = 128;
inline constexpr std::size_t metric_help_bytes = 256;
inline constexpr std::size_t histogram_bounds = 32;
inline constexpr std::size_t metrics_in_state_bytes = 8U << 20;

/// The bounds, in seconds, by which calls are counted. Reports between processes have one count for each of them.
inline constexpr std::array call_seconds = {1e-5, 3e-5, 1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2,
                                            1e-1, 3e-1, 1.0,  3.0,  10.0, 30.0, 100.0};

/// Attributes and links of one span; further ones are left out. Bytes of one text of a span; the rest is cut.
inline constexpr std::size_t span_attributes = 64;
inline constexpr std::size_t span_links = 128;
inline constexpr std::size_t span_text_bytes = 4096;

/// How long the end of a process waits until its last spans are sent.
inline constexpr std::chrono::seconds trace_flush{2};

/// Methods of one actor, and tasks of one node, whose call counts the broker keeps; and the bytes of such counts in one
/// answer about the state of a cluster: those of further nodes and actors are left out.
inline constexpr std::size_t call_stats_kept = 1024;
inline constexpr std::size_t call_stats_in_state_bytes = 16U << 20;

/// Longest full name of a message type, in bytes.
inline constexpr std::size_t message_name_bytes = 1'024;

/// Labels that a request may put conditions on, and values that it may list for one; resources that it may ask for.
inline constexpr std::size_t labels_per_request = 256;
inline constexpr std::size_t values_per_label = 1024;
inline constexpr std::size_t resources_per_request = 256;

/// Highest priority of a request; the lowest is its negative. Each decision of the broker looks at the oldest waiting
/// request of each priority.
inline constexpr int priority = 100;

/// Types of tasks and actors of one node together.
inline constexpr std::size_t types_per_node = 16'384;

/// Devices of one node.
inline constexpr std::size_t devices_per_node = 4096;

/// Distance of two devices of one node, in whatever unit the node reports.
inline constexpr int distance = 1000;

/// Bundles of one placement group.
inline constexpr std::size_t bundles_per_group = 1024;

/// Dimensions of a tensor.
inline constexpr std::size_t tensor_rank = 8;

/// Bytes of arguments of one kernel launch.
inline constexpr std::size_t kernel_argument_bytes = 256;
/// Bytes of shared memory of a block; a chip may have less (227 KiB on Hopper).
inline constexpr std::size_t most_shared_bytes = std::size_t{256} << 10;

/// Limits of a task given as source: bytes of the source together with the kernel's name and options, numbers of
/// options and of arguments, numbers that a request or its answer carries inline instead of tensor references, and
/// bytes of compiler output.
inline constexpr std::size_t source_bytes = 1U << 20;
inline constexpr std::size_t source_options = 64;
inline constexpr std::size_t source_arguments = 128;
inline constexpr std::size_t source_values = 64U << 10;
inline constexpr std::size_t compiler_log_bytes = 16U << 10;

/// Kernels compiled from source: how many unused ones a process keeps loaded, how many bytes of their code it keeps for
/// loading them again, and how many of their files the cache folder holds.
inline constexpr std::size_t loaded_kernels = 256;
inline constexpr std::size_t kernel_code_bytes = 64U << 20;
inline constexpr std::size_t kernel_files = 4'096;

/// Calls and tasks that one client may have in flight.
inline constexpr std::size_t calls_in_flight = 1U << 20;

/// Cancelled calls that an actor or runner remembers until their turn comes, in order to skip them: together for all
/// processes with full rights, and for each client's name.
inline constexpr std::size_t remembered_cancellations = calls_in_flight;
inline constexpr std::size_t remembered_cancellations_per_name = 1U << 17;

/// Leases for tasks of one shape that a client requests at the same time; and leases that it holds for a shape without
/// resources, which the ledger does not bound.
inline constexpr std::size_t leases_requested = 64;
inline constexpr std::size_t leases_without_resources = 64;

/// Short tasks of one shape that a client sends ahead to one lease in another process; and the time after which tasks
/// that wait there behind an unexpectedly long one are taken back.
inline constexpr std::size_t tasks_ahead = 32;
inline constexpr std::chrono::milliseconds tasks_ahead_wait{20};

/// Items of a streamed reply that may be in flight before the producer waits.
inline constexpr std::uint32_t stream_window = 32;

/// Bytes of items of a kept stream that are on their way to its reader, before further ones wait (`OpenStream`).
inline constexpr std::size_t stream_window_bytes = 1U << 20;

/// Bytes of a streamed reply that may wait for its reader where the producer does not wait (`OpenStream`).
inline constexpr std::size_t open_stream_bytes = 4U << 20;

/// Bytes of one answer about the state of a cluster, without metrics and counts of calls; see
/// `v1::ClusterState::incomplete`.
inline constexpr std::size_t state_bytes = 24U << 20;

/// Reasons of waiting requests in one answer about the state of a cluster, each for all requests that ask for the same.
inline constexpr std::size_t queue_reasons = 1'000;

/// Events that the broker keeps for `Cluster::state`; older ones are dropped.
inline constexpr std::size_t event_log = 4'096;

/// Bytes kept of one line of worker output; the rest of a longer line is dropped.
inline constexpr std::size_t log_line_bytes = 16U << 10;

/// Bytes of one file of a node's log, and the number of files; the oldest file is removed.
inline constexpr std::size_t log_file_bytes = 16U << 20;
inline constexpr std::size_t log_files = 8;

/// Lines that one request for the tail of a node's log may ask for.
inline constexpr std::size_t log_tail_lines = 10'000;

/// Lines queued for one follower of a node's log; further lines are dropped.
inline constexpr std::size_t log_follow_lines = 1'024;

/// Remote log readers: how many one node serves, how many of these may have the same client's certificate, and how many
/// places are not for clients' certificates; how long a silent reader is remembered, how long a request may wait for a
/// line, and the bytes of lines in one answer.
inline constexpr std::size_t log_readers = 64;
inline constexpr std::size_t log_readers_per_name = 16;
inline constexpr std::size_t log_readers_kept = 16;
inline constexpr std::chrono::seconds log_reader_idle{30};
inline constexpr std::chrono::seconds log_wait{20};
inline constexpr std::size_t log_answer_bytes = 1U << 20;

/// Bytes of lines queued for one reader. Beyond that, the oldest of the initial lines are left out, and later lines are
/// dropped.
inline constexpr std::size_t log_reader_bytes = 16U << 20;

/// Lines of an actor's log shown by default.
inline constexpr std::size_t log_shown_lines = 1'000;

/// Ended holders per worker whose last lines may still arrive, and stays of actors in workers that are remembered in
/// order to attribute their lines.
inline constexpr std::size_t log_ended_holders = 256;
inline constexpr std::size_t log_stays = 4'096;

/// Limits of a type catalog, for one node and for all nodes of a cluster together: bytes of message descriptions, and
/// messages in them (each may nest the next, and inspecting the first one visits all).
inline constexpr std::size_t catalog_bytes = 8U << 20;
inline constexpr std::size_t catalog_messages = 4'096;

/// Default deadline of a call.
inline constexpr std::chrono::seconds call_deadline{60};

/// How long the end of a cluster, and a spawn, wait before a notice says what they wait for, and the longest time
/// between two notices.
inline constexpr std::chrono::seconds close_notice{10};
inline constexpr std::chrono::seconds spawn_notice{30};
inline constexpr std::chrono::minutes notice_longest{10};

/// How long `kill` waits for a running method before it reports that the actor is stuck.
inline constexpr std::chrono::seconds stop_grace{5};

/// How long before the end of a grace waits for futures are ended, so that the waiting code may still end in order; at
/// most a quarter of the grace.
inline constexpr std::chrono::seconds last_words{1};

/// The pause before an actor restarts: none at first, then `restart_pause`, doubled each time up to
/// `restart_pause_most`. A life of at least `restart_calm` resets the pause to none.
inline constexpr std::chrono::milliseconds restart_pause{100};
inline constexpr std::chrono::seconds restart_pause_most{30};
inline constexpr std::chrono::minutes restart_calm{1};

/// Bytes of the reason with which an actor ends itself, and of any reason that the broker keeps, which may have a
/// prefix; the rest of a longer one is dropped.
inline constexpr std::size_t end_reason_bytes = 4U << 10;
inline constexpr std::size_t kept_reason_bytes = end_reason_bytes + 256;

/// Ended actors that the broker still reports.
inline constexpr std::size_t ended_actors = 1'000;

/// Ended actors, the latest ones, that a restarted broker does not take back from nodes that were cut off.
inline constexpr std::size_t buried_actors = 10'000;

/// Drained nodes that are away and that the broker remembers in case they return.
inline constexpr std::size_t away_drained_nodes = 1'000;

/// Quotas that may be set, and the most owners that the state shows.
inline constexpr std::size_t quotas = 1'000;

/// Actors that have ended themselves, the latest ones, that a node reports to each broker that it registers with.
inline constexpr std::size_t own_ends = 1'000;

/// What the broker keeps in all for programs with client's certificates of one name: the programs, including those that
/// are away and may return; actors and placement groups that they have started, and requests that wait for their
/// answers, each with the bytes of the requests; leases for tasks that they have or wait for. Programs with full rights
/// are not bounded.
inline constexpr std::size_t clients_per_name = 1'024;
inline constexpr std::size_t started_per_name = 16'384;
inline constexpr std::size_t started_bytes_per_name = std::size_t{2} << 30;
inline constexpr std::size_t leases_per_name = 65'536;
inline constexpr std::size_t waiting_per_name = 65'536;
inline constexpr std::size_t waiting_bytes_per_name = std::size_t{1} << 30;

/// Leases for tasks that one program may say it holds.
inline constexpr std::size_t claimed_leases = 65'536;

/// Withdrawn requests of one client, the latest ones, that the broker remembers in case a node reports what was
/// requested.
inline constexpr std::size_t withdrawn_requests = 1'000;

/// Total bytes of names and values of the environment variables that one request gives its process.
inline constexpr std::size_t environment_bytes = 64U << 10;

/// Bytes of an error's text; the rest of a longer text is dropped.
inline constexpr std::size_t error_text_bytes = 256U << 10;

/// Bytes of notices to a daemon's operator that may be queued for writing, and how long the daemon waits for them when
/// it ends.
inline constexpr std::size_t notice_bytes = 1U << 20;
inline constexpr std::chrono::seconds notice_last_words{1};

/// How often a worker reports the memory that its actors use, how their calls and its tasks went, and the metrics that
/// actors publish; and the approximate size in bytes of the messages with such reports.
inline constexpr std::chrono::seconds usage_report{1};
inline constexpr std::size_t usage_bytes = 4U << 20;

/// How long a client keeps using a lease for successive tasks of its shape while other requests wait.
inline constexpr std::chrono::milliseconds lease_turn{200};

/// Hardware queues of a process that works for one lease on GPUs, unless somebody has chosen a number: as many as CUDA
/// has by itself. Each takes its time where the process begins and ends (docs/design/0061).
inline constexpr int lease_queues = 8;

/// How long a client keeps an idle lease for the next task of the same shape: while nobody else waits for it, and if
/// others waited when it was granted. Not much longer than it takes to open a context on a GPU anew, so that tasks one
/// after the other share a lease, and nobody waits for long for one that has no more tasks. One with a process of its
/// own is kept as if nobody waited: a new process takes that long, too.
inline constexpr std::chrono::milliseconds lease_linger{200};
inline constexpr std::chrono::milliseconds lease_linger_wanted{2};

/// How often a client looks for tasks that wait behind a long one.
inline constexpr std::chrono::milliseconds lease_sweep{20};

/// Heartbeat interval of a process, and the silence after which its peers consider it dead; each with the range that
/// users may choose from.
inline constexpr std::chrono::seconds heartbeat{1};
inline constexpr std::chrono::milliseconds heartbeat_least{50};
inline constexpr std::chrono::seconds heartbeat_most{60};
inline constexpr std::chrono::seconds link_timeout{5};
inline constexpr std::chrono::milliseconds link_timeout_least{200};
inline constexpr std::chrono::minutes link_timeout_most{10};

/// The longest that an actor's timer sleeps at a time.
inline constexpr std::chrono::minutes timer_step{1};

/// How often a streamed reply that waits for its reader checks that the reader is still there.
inline constexpr std::chrono::seconds reader_look{1};

/// A message that follows the previous one of its connection within this time is left to the event loop, which sends it
/// together with later ones. About the cost of a system call that sends.
inline constexpr std::chrono::microseconds link_collect{15};

/// How long one attempt to connect may take.
inline constexpr std::chrono::seconds connect_timeout{3};

// -- brokers that stand by ------------------------------------------------------------------------

/// How often a standby broker asks the active broker for changes.
inline constexpr std::chrono::milliseconds follow_interval{200};
/// How long a node's request counts as a vote for the standby broker. Longer than a node takes to try all of its
/// broker's addresses once.
inline constexpr std::chrono::seconds vote_lasts{10};
/// Bytes of the latest changes that a broker remembers for its followers.
inline constexpr std::size_t remembered_changes_bytes = std::size_t{64} << 20;
/// Bytes of one answer to a follower; the last entry in it may exceed them.
inline constexpr std::size_t state_part_bytes = std::size_t{1} << 20;

/// Minimum interval at which a node forwards saved actor states to the broker; of several saves of one actor only the
/// last is sent.
inline constexpr std::chrono::milliseconds save_interval{50};

/// Approximate size in bytes of the messages in which a registering node reports the leases that it holds.
inline constexpr std::size_t held_bytes = 8U << 20;

/// Connections of one process, and the largest message in bytes that a peer may announce: more than any message that
/// the library sends.
inline constexpr std::size_t links = 4096;
inline constexpr std::size_t link_message_bytes = 64U << 20;

/// Bytes that may wait for a peer that takes nothing for the link timeout; the connection is ended beyond that.
inline constexpr std::size_t link_waiting_bytes = 4 * link_message_bytes;

/// Bytes that may wait in one process for all clients together, so that clients that read slowly cannot fill its
/// memory. Beyond that, the process ends the connections of each client's certificate for whose connections more than
/// `client_waiting_bytes` wait together.
inline constexpr std::size_t clients_waiting_bytes = 512U << 20;
inline constexpr std::size_t client_waiting_bytes = link_message_bytes;

/// Total bytes of messages that the peers of one process may announce in plaintext, where a peer may be anyone.
/// Messages of at most `link_small_message_bytes` do not count.
inline constexpr std::size_t links_announced_bytes = 512U << 20;
inline constexpr std::size_t link_small_message_bytes = 64U << 10;

/// Pauses between attempts to connect: the first, and the longest.
inline constexpr std::chrono::milliseconds redial_shortest{20};
inline constexpr std::chrono::seconds redial_longest{1};

/// Longest grace that a client may request for reconnecting after its connection is lost.
inline constexpr std::chrono::hours reconnect_grace_most{24};

/// How long a restarted broker waits for the nodes and clients of its predecessor; and the longest that a broker which
/// stood still waits for its own.
inline constexpr std::chrono::seconds settle{5};

/// A device that `device_losses` worker processes lost within `device_loss_window` is not offered again.
inline constexpr std::size_t device_losses = 3;
inline constexpr std::chrono::minutes device_loss_window{10};

/// How long calls on a failed device may still be answered before the processes that use it are killed; and how often a
/// thread that waits for device events checks whether to stop.
inline constexpr std::chrono::seconds fault_grace{1};
inline constexpr std::chrono::milliseconds fault_look{100};

/// Most host memory of a node or request, in bytes: far above any machine, while the sum of thousands of them fits into
/// 64 bits.
inline constexpr std::uint64_t host_memory_bytes = std::uint64_t{1} << 50;

/// How often a node that runs workers checks its host memory; the default for the part of it in use above which the
/// node ends a worker; and the least part of it that a worker must use for its end to help.
inline constexpr std::chrono::milliseconds memory_look{250};
inline constexpr double memory_threshold = 0.95;
inline constexpr double memory_worth = 0.01;

/// How long a worker that is ended for its memory may answer its calls before it is killed; and how long a node waits
/// for the memory of a killed one before it ends another.
inline constexpr std::chrono::milliseconds memory_grace{300};
inline constexpr std::chrono::seconds memory_patience{10};

/// How often a node reports the utilization of its devices.
inline constexpr std::chrono::seconds use_look{2};

/// Device memory that a process under MPS may use beyond its lease: for its context, code, allocations of libraries
/// (together 213 MiB on an H200 with driver 580), and memory that its pool holds in pieces that do not fit.
inline constexpr std::uint64_t mps_headroom_bytes = std::uint64_t{320} << 20;

/// How long an agent waits for the last messages of a worker that has exited.
inline constexpr std::chrono::seconds exit_patience{1};

/// How long a worker process may take to report to its agent after it was started.
inline constexpr std::chrono::seconds worker_start{60};

/// Default lifetime of a node's certificate, in days.
inline constexpr std::int64_t certificate_days = 365;

/// Default lifetime of a certificate authority and longest lifetime of any certificate, in days.
inline constexpr std::int64_t authority_days = 3'650;
inline constexpr std::int64_t authority_days_most = 36'500;

/// How often a broker or node looks at its certificate while nobody connects.
inline constexpr std::chrono::seconds certificate_look{10};

/// How many authorities a process may trust at once: the one in use and those that are being replaced.
inline constexpr std::size_t authorities_most = 8;

/// How long before its expiry a node's certificate is renewed; at most a third of its lifetime.
inline constexpr std::chrono::hours certificate_renewal{30 * 24};

/// How long before the expiry of its certificate a process warns of it, once a day; at most a sixth of the
/// certificate's lifetime.
inline constexpr std::chrono::hours certificate_warning{20 * 24};

/// Device tensors below this size in bytes travel to other processes through the host: shared device memory comes in
/// units of 2 MiB, and opening it takes longer than copying so little.
inline constexpr std::size_t device_shared_from = 1U << 20;

/// Memory regions below this size in bytes are copied to other processes instead of mapped by them.
inline constexpr std::size_t region_mappable_from = 64U << 10;

/// Bytes of memory of ended regions that a process keeps for new ones.
inline constexpr std::size_t region_warm_bytes = 256U << 20;

/// Bytes of ended regions that a process keeps beyond `region_warm_bytes`, and for how long. This helps programs that
/// put one large tensor after another: new pages cost several times as much as filling them.
inline constexpr std::size_t region_spare_bytes = std::size_t{2} << 30;
inline constexpr std::chrono::seconds region_spare_time{5};

/// Simultaneous bulk data connections of a server, for each of its two ports; further ones wait.
inline constexpr std::size_t bulk_connections = 128;

/// Strangers among these connections: peers that have neither shown a certificate nor sent a request. A new stranger
/// displaces the oldest.
inline constexpr std::size_t bulk_strangers = 32;

/// Concurrent fetches of a client from one server, and connections to it; further fetches wait.
inline constexpr std::size_t bulk_streams = 8;

/// Most bytes of bulk data moved by one system call.
inline constexpr std::size_t bulk_chunk = 1U << 20;

/// Default time for which a handed-over reference keeps its tensor if nobody takes it.
inline constexpr std::chrono::minutes hand_over{10};

/// Batches of gpuactors-serve, and replies to them, that have more bytes than this travel as tensors outside the
/// message, if the actor accepts that; and the most bytes of such a batch.
inline constexpr std::size_t served_message_bytes = 512U << 10;
inline constexpr std::size_t served_batch_bytes = 256U << 20;

/// How long a reply keeps its tensors if nobody takes them.
inline constexpr std::chrono::minutes served_hand_over{1};

/// How long a bulk data peer may take to connect and authenticate, or to finish sending a request.
inline constexpr std::chrono::seconds bulk_handshake{5};

/// How long a transfer may make no progress before the peer counts as gone.
inline constexpr std::chrono::seconds bulk_progress{10};

/// Assumed minimum rate, in bytes per second, at which a process copies a tensor from its device to host memory before
/// sending it. The time limit of that copy follows from it.
inline constexpr std::size_t bulk_gathered_a_second = 256U << 20;

/// How long an idle bulk data connection is kept for the next transfer.
inline constexpr std::chrono::seconds bulk_idle{60};

static_assert(stop_grace < call_deadline, "a kill must be answered before an ordinary call gives up");
static_assert(held_bytes + request_bytes + payload_bytes + saved_bytes < link_message_bytes / 2);
static_assert(held_bytes + 4 * own_ends * end_reason_bytes < link_message_bytes / 2);
static_assert(usage_bytes + metrics_per_actor * (2 * metric_name_length + metric_help_bytes + 32 * histogram_bounds)
              < link_message_bytes / 2);
static_assert(usage_bytes + call_stats_kept * (2 * name_length + 32 * call_seconds.size()) < link_message_bytes / 2);
static_assert(state_bytes + 2 * metrics_in_state_bytes + call_stats_in_state_bytes < link_message_bytes);
static_assert(heartbeat < link_timeout && redial_longest < settle && connect_timeout < link_timeout);
static_assert(certificate_days <= authority_days && authority_days <= authority_days_most);
static_assert(bulk_strangers < bulk_connections && bulk_streams < bulk_connections);
static_assert(bulk_handshake < call_deadline && bulk_progress < call_deadline, "a frozen peer fails one fetch in time");
static_assert(leases_requested < calls_in_flight && leases_without_resources < calls_in_flight);
static_assert(source_bytes < payload_bytes && source_values * sizeof(double) < payload_bytes);
static_assert(compiler_log_bytes < error_text_bytes && error_text_bytes < payload_bytes);
static_assert(fault_grace < link_timeout && exit_patience < link_timeout);
static_assert(memory_grace < memory_patience && memory_patience < call_deadline);
static_assert(log_wait < log_reader_idle && log_line_bytes < log_answer_bytes && log_answer_bytes < link_message_bytes);
static_assert(log_readers_per_name + log_readers_kept < log_readers, "one client leaves places to others");
static_assert(2 * log_line_bytes < log_file_bytes, "a line fits into a file, whatever stands before it");

} // namespace gpuactors::limits
