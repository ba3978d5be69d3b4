// CAF's protocol between processes, as far as connections look into it.
#pragma once

#include <gpuactors/wire/caf_version.hpp>

#include <caf/io/basp/header.hpp>
#include <caf/io/basp_broker.hpp>

#include <algorithm>
#include <cstdint>
#include <optional>

namespace gpuactors::detail {

/// Returns the process at the other end of a connection, as known to the `Broker` that owns the connection; none before
/// the peer has identified itself, or if CAF sends to it over another connection.
inline caf::node_id peer_of(caf::io::abstract_broker* broker, const caf::io::connection_handle& connection) {
  auto& table = static_cast<caf::io::basp_broker*>(broker)->instance.tbl();
  const auto peer = table.lookup_direct(connection);
  if (!peer)
    return {};
  const auto chosen = table.lookup_direct(peer);
  return chosen && *chosen == connection ? peer : caf::node_id{};
}

/// Returns the connection over which CAF sends to `peer`; nothing if there is none.
inline std::optional<caf::io::connection_handle> way_to(caf::io::abstract_broker* broker, const caf::node_id& peer) {
  const auto way = static_cast<caf::io::basp_broker*>(broker)->instance.tbl().lookup_direct(peer);
  return way ? std::optional{*way} : std::nullopt;
}

/// Makes `connection` the one over which CAF sends to `peer`, and from which it takes messages as that one's. No
/// connection at all is none.
inline void set_way(caf::io::abstract_broker* broker, const caf::node_id& peer,
                    std::optional<caf::io::connection_handle> connection) {
  auto& table = static_cast<caf::io::basp_broker*>(broker)->instance.tbl();
  if (const auto way = table.lookup_direct(peer))
    table.erase_direct(*way);
  if (connection)
    table.add_direct(*connection, peer);
}

/// Ends the actor that CAF has begun for a process that has come, to spawn others there, which nobody here does. CAF
/// keeps it until it ends itself, for each process that was ever there.
inline void end_spawn_server(caf::io::abstract_broker* broker, const caf::node_id& peer) {
  auto& servers = static_cast<caf::io::basp_broker*>(broker)->spawn_servers;
  const auto server = servers.find(peer);
  if (server == servers.end())
    return;
  caf::anon_send_exit(server->second, caf::exit_reason::kill);
  servers.erase(server);
}

/// What a message of CAF's protocol does, as far as it matters here.
enum class LinkKind {
  handshake,
  heartbeat,
  /// A message from an actor of the process at the other end.
  message,
  /// A message without a sender.
  anonymous,
  /// News of an actor: that somebody watches it, or that it has ended. The payload names the processes of both.
  news,
  /// Anything else, such as a message that says from which third process it comes.
  other,
};

/// The header of a message, and the number of bytes that follow it.
struct LinkHeader {
  LinkKind kind = LinkKind::other;
  std::uint32_t payload = 0;
  /// It is for one of CAF's own actors, which have names.
  bool is_to_name = false;
};

inline constexpr std::size_t link_header_size = caf::io::basp::header_size;
inline constexpr std::size_t link_flags_at = 3;

/// Changes the header of a message so that it is for nobody: CAF then drops the message without reading it.
template <class Buffer>
void readdress_to_nobody(Buffer& header) {
  constexpr std::size_t receiver_begin = 24;
  static_assert(link_header_size == receiver_begin + sizeof(caf::actor_id));
  using Byte = typename Buffer::value_type;
  header[link_flags_at] = Byte{0};
  std::fill_n(header.begin() + receiver_begin, sizeof(caf::actor_id), static_cast<Byte>(0xFF));
}

/// Reads the header that begins at `data`, of `link_header_size` bytes.
inline LinkHeader read_link_header(const void* data) {
  using caf::io::basp::message_type;
  // One byte for the kind, three others, then in network order: the payload's size (4), the message's id (8), the ids
  // of sender and receiver (8 each).
  constexpr std::size_t size_begin = 4;
  constexpr std::size_t size_end = 8;
  constexpr std::size_t sender_begin = 16;
  constexpr std::size_t sender_end = 24;
  static_assert(link_header_size == sender_end + sizeof(caf::actor_id));
  const auto* bytes = static_cast<const unsigned char*>(data);
  LinkHeader header;
  header.is_to_name = (bytes[link_flags_at] & caf::io::basp::header::named_receiver_flag) != 0;
  for (auto i = size_begin; i < size_end; ++i)
    header.payload = (header.payload << 8U) | bytes[i];
  switch (static_cast<message_type>(bytes[0])) {
  case message_type::server_handshake:
  case message_type::client_handshake:
    header.kind = LinkKind::handshake;
    break;
  case message_type::direct_message:
    header.kind = std::all_of(bytes + sender_begin, bytes + sender_end, [](auto byte) { return byte == 0; })
                      ? LinkKind::anonymous
                      : LinkKind::message;
    break;
  case message_type::monitor_message:
  case message_type::down_message:
    header.kind = LinkKind::news;
    break;
  case message_type::heartbeat:
    header.kind = LinkKind::heartbeat;
    break;
  case message_type::routed_message:
    break;
  }
  return header;
}

} // namespace gpuactors::detail
