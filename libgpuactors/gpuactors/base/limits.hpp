// Every bound of the library in one place, and how the bounds relate.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace gpuactors::limits {

/// Largest serialized message of a user; bulk data goes through `put`.
inline constexpr std::size_t payload_bytes = 4U << 20;

/// What an actor may save for its next life, in bytes: its node and the broker keep it, and send it along.
inline constexpr std::size_t saved_bytes = 256U << 10;

/// Longest name of an actor, node, type, method, label or resource, in characters.
inline constexpr std::size_t name_length = 128;

/// Longest full name of a message type.
inline constexpr std::size_t message_name_bytes = 1'024;

/// Values that a request may list for one label.
inline constexpr std::size_t values_per_label = 1024;

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

/// A task that is source: bytes of the source with its kernel's name and options, how many options and arguments there
/// are, numbers that a request, or its answer, carries instead of references to tensors, and bytes of what the compiler
/// says.
inline constexpr std::size_t source_bytes = 1U << 20;
inline constexpr std::size_t source_options = 64;
inline constexpr std::size_t source_arguments = 128;
inline constexpr std::size_t source_values = 64U << 10;
inline constexpr std::size_t compiler_log_bytes = 16U << 10;

/// Kernels from source that a process keeps loaded when nobody uses them, bytes of code that it keeps to load them
/// again, and files of them in the cache folder.
inline constexpr std::size_t loaded_kernels = 256;
inline constexpr std::size_t kernel_code_bytes = 64U << 20;
inline constexpr std::size_t kernel_files = 4'096;

/// Calls and tasks that one client may have in flight.
inline constexpr std::size_t calls_in_flight = 1U << 20;

/// Cancelled calls that an actor or runner remembers until it would have begun them.
inline constexpr std::size_t remembered_cancellations = calls_in_flight;

/// Leases for tasks of one shape that a client asks for at once.
inline constexpr std::size_t leases_per_shape = 64;

/// Tasks of one shape that a client has under way to one lease in another process, when they are short; and after which
/// time those that wait there behind one that turned out to be long are taken back.
inline constexpr std::size_t tasks_ahead = 32;
inline constexpr std::chrono::milliseconds tasks_ahead_wait{20};

/// Items of a streamed reply that may be under way before the producer waits.
inline constexpr std::uint32_t stream_window = 32;

/// Events that the broker keeps for `Cluster::state`; older ones are dropped.
inline constexpr std::size_t event_log = 4'096;

/// Bytes of one line that a worker writes; the rest of a longer one is left out.
inline constexpr std::size_t log_line_bytes = 16U << 10;

/// Bytes of one file of a node's log, and how many files there are; the oldest is removed.
inline constexpr std::size_t log_file_bytes = 16U << 20;
inline constexpr std::size_t log_files = 8;

/// Lines of a node's log that one look at its end may ask for.
inline constexpr std::size_t log_tail_lines = 10'000;

/// Lines that wait for one who follows a node's log; further ones are dropped.
inline constexpr std::size_t log_follow_lines = 1'024;

/// Readers that one node serves, how long one is remembered that does not ask, the longest that its question waits for
/// a line, and the bytes of lines in one answer.
inline constexpr std::size_t log_readers = 64;
inline constexpr std::chrono::seconds log_reader_idle{30};
inline constexpr std::chrono::seconds log_wait{20};
inline constexpr std::size_t log_answer_bytes = 1U << 20;

/// Bytes of lines that wait for one reader; of those that were there at first the oldest are left out, later ones are
/// dropped.
inline constexpr std::size_t log_reader_bytes = 16U << 20;

/// Lines of an actor that are shown when nobody says how many.
inline constexpr std::size_t log_shown_lines = 1'000;

/// Holders that have ended and whose last lines may still come, for each worker; stays of actors in workers that are
/// remembered for their lines.
inline constexpr std::size_t log_ended_holders = 256;
inline constexpr std::size_t log_stays = 4'096;

/// What a node, or all nodes of a cluster together, may tell of the messages of their types: bytes of descriptions, and
/// messages in them (each may hold the next, and a look at the first one goes through all).
inline constexpr std::size_t catalog_bytes = 8U << 20;
inline constexpr std::size_t catalog_messages = 4'096;

/// How long a call waits for its answer unless told otherwise.
inline constexpr std::chrono::seconds call_deadline{60};

/// How long `kill` waits for a running method before it reports that the actor is stuck.
inline constexpr std::chrono::seconds stop_grace{5};

/// The pause before an actor is started anew when its last life was short: first none, then this, doubled each time up
/// to the second number. A life of the third makes it none again.
inline constexpr std::chrono::milliseconds restart_pause{100};
inline constexpr std::chrono::seconds restart_pause_most{30};
inline constexpr std::chrono::minutes restart_calm{1};

/// Actors that have ended and that the broker still tells of.
inline constexpr std::size_t ended_actors = 1'000;

/// Names and values of the variables that one request gives its process, in bytes together.
inline constexpr std::size_t environment_bytes = 64U << 10;

/// Bytes of an error's text; the rest of a longer one is left out.
inline constexpr std::size_t error_text_bytes = 256U << 10;

/// Bytes of lines for a daemon's operator that wait to be written, and how long its end waits for them.
inline constexpr std::size_t notice_bytes = 1U << 20;
inline constexpr std::chrono::seconds notice_last_words{1};

/// How often a worker tells of the memory that its actors use and of the calls that they served.
inline constexpr std::chrono::seconds usage_report{1};

/// How long a client keeps a lease for one task of its shape after the other while others wait.
inline constexpr std::chrono::milliseconds lease_turn{200};

/// How long a client keeps an idle lease for the next task of the same shape.
inline constexpr std::chrono::milliseconds lease_linger{20};

/// How often a process shows that it is alive, and how long others wait for a sign of it before it counts as dead.
inline constexpr std::chrono::seconds heartbeat{1};
inline constexpr std::chrono::seconds link_timeout{5};

/// A message that follows another one of its connection so closely is sent with those that come after it, by the event
/// loop: about what a system call that sends costs.
inline constexpr std::chrono::microseconds link_collect{15};

/// How long one attempt to connect may take.
inline constexpr std::chrono::seconds connect_timeout{3};

/// How often a node tells the broker at most what its actors saved: of several saves of one actor the last.
inline constexpr std::chrono::milliseconds save_interval{50};

/// A node that registers tells what it holds in messages of about this size.
inline constexpr std::size_t held_bytes = 8U << 20;

/// Connections of one process, and the largest message that one of them may announce: more than any that the library
/// sends.
inline constexpr std::size_t links = 4096;
inline constexpr std::size_t link_message_bytes = 64U << 20;

/// What the peers of one process may announce together in plaintext, where they may be anyone; messages up to the
/// second number do not count.
inline constexpr std::size_t links_announced_bytes = 512U << 20;
inline constexpr std::size_t link_small_message_bytes = 64U << 10;

/// Pauses between attempts to connect: the first, and the longest.
inline constexpr std::chrono::milliseconds redial_shortest{20};
inline constexpr std::chrono::seconds redial_longest{1};

/// How long a client may ask to be kept for when its connection is lost.
inline constexpr std::chrono::hours reconnect_grace_most{24};

/// How long a broker waits for the nodes and clients of the one before it.
inline constexpr std::chrono::seconds settle{5};

/// A device that so many worker processes lost within this time is not offered again.
inline constexpr std::size_t device_losses = 3;
inline constexpr std::chrono::minutes device_loss_window{10};

/// How long the calls on a device that has failed may take to be answered before the processes that use it are killed,
/// and how often who waits for the next event of a device looks whether to go on waiting.
inline constexpr std::chrono::seconds fault_grace{1};
inline constexpr std::chrono::milliseconds fault_look{100};

/// How often a node tells how busy its devices are.
inline constexpr std::chrono::seconds use_look{2};

/// What a process under MPS may take of a device beside its lease: its context, code, and what libraries allocate.
inline constexpr std::uint64_t mps_headroom_bytes = std::uint64_t{256} << 20;

/// How long a worker process may take to report to its agent after it was started.
inline constexpr std::chrono::seconds worker_start{60};

/// Days that a certificate of a node lives unless told otherwise.
inline constexpr std::int64_t certificate_days = 365;

/// Days that a certificate authority lives unless told otherwise, and the most that any certificate may.
inline constexpr std::int64_t authority_days = 3'650;
inline constexpr std::int64_t authority_days_most = 36'500;

/// How long before its end a node's certificate is renewed; later if that were more than a third of its life.
inline constexpr std::chrono::hours certificate_renewal{30 * 24};

/// Tensors on a device below this size go to other processes through the host: device memory that is shared comes in
/// units of 2 MiB, and to open it takes longer than to copy so little.
inline constexpr std::size_t device_shared_from = 1U << 20;

/// Regions of memory below this size are not mapped by other processes but copied.
inline constexpr std::size_t region_mappable_from = 64U << 10;

/// Memory that a process keeps for the next regions when some end.
inline constexpr std::size_t region_warm_bytes = 256U << 20;

/// What it keeps beyond that, for who puts one large tensor after the other, and for how long: new pages cost several
/// times what it takes to fill them.
inline constexpr std::size_t region_spare_bytes = std::size_t{2} << 30;
inline constexpr std::chrono::seconds region_spare_time{5};

/// Connections for bulk data that a server has at once, for each of its two ports; the next ones wait.
inline constexpr std::size_t bulk_connections = 128;

/// Strangers among them, who have not shown a certificate or asked for anything yet; the oldest makes room.
inline constexpr std::size_t bulk_strangers = 32;

/// Fetches from one server that a client runs at once, and connections to it; further fetches wait.
inline constexpr std::size_t bulk_streams = 8;

/// Bytes of bulk data that one system call moves at most.
inline constexpr std::size_t bulk_chunk = 1U << 20;

/// How long a reference that was handed over keeps its tensor when nobody takes it, unless told otherwise.
inline constexpr std::chrono::minutes hand_over{10};

/// How long a peer of bulk data may take to connect and show who it is, or to finish a request that it began.
inline constexpr std::chrono::seconds bulk_handshake{5};

/// How long a transfer may stand still before the peer counts as gone.
inline constexpr std::chrono::seconds bulk_progress{10};

/// How many bytes a second a process is given to bring a tensor from its device to host memory before it is sent.
inline constexpr std::size_t bulk_gathered_a_second = 256U << 20;

/// How long a connection for bulk data is kept for the next transfer.
inline constexpr std::chrono::seconds bulk_idle{60};

static_assert(stop_grace < call_deadline, "a kill must be answered before an ordinary call gives up");
static_assert(held_bytes + payload_bytes + saved_bytes < link_message_bytes / 2);
static_assert(heartbeat < link_timeout && redial_longest < settle && connect_timeout < link_timeout);
static_assert(certificate_days <= authority_days && authority_days <= authority_days_most);
static_assert(bulk_strangers < bulk_connections && bulk_streams < bulk_connections);
static_assert(bulk_handshake < call_deadline && bulk_progress < call_deadline, "a frozen peer fails one fetch in time");
static_assert(leases_per_shape < calls_in_flight);
static_assert(source_bytes < payload_bytes && source_values * sizeof(double) < payload_bytes);
static_assert(compiler_log_bytes < error_text_bytes && error_text_bytes < payload_bytes);
static_assert(fault_grace < link_timeout);
static_assert(log_wait < log_reader_idle && log_line_bytes < log_answer_bytes && log_answer_bytes < link_message_bytes);
static_assert(2 * log_line_bytes < log_file_bytes, "a line fits into a file, whatever stands before it");

} // namespace gpuactors::limits
