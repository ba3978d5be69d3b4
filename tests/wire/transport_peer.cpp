// Serves or fetches one region, and stays until its input ends.
//
//   transport_peer SCHEME MODE BYTES [AUTHORITY CERTIFICATE KEY]
//     SCHEME is local, tcp or tls. MODE is whole, or half: a server that falls silent in the middle of its answer.
//     Prints its address.
//   transport_peer ADDRESS fetch BYTES
//     Prints the address when the region with the id 1 is here, and its server is done with it.
#include <gpuactors/wire/transport.hpp>
#include <gpuactors/wire/transport/channel.hpp>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

using namespace gpuactors;

namespace {

template <class T>
T must(Result<T> result) {
  if (!result) {
    std::fprintf(stderr, "transport_peer: %s\n", to_string(result.error()).c_str());
    std::exit(1);
  }
  return std::move(*result);
}

void say(const std::string& line) {
  std::printf("%s\n", line.c_str());
  std::fflush(stdout);
}

void wait_for_end() {
  while (std::getchar() != EOF) {
    // nop
  }
}

SharedRegion region_of(std::size_t bytes, const std::shared_ptr<RegionPool>& pool) {
  auto draft = must(pool->make(bytes, RegionReaders::machine));
  std::memset(draft.data(), 'p', bytes);
  return std::move(draft).seal();
}

void serve_whole(const std::vector<std::string>& words, std::size_t bytes) {
  BulkServerOptions options;
  options.local = words[0] == "local";
  if (!options.local)
    options.listening.host = "127.0.0.1";
  if (words.size() == 6)
    options.certificates = CertificateFiles{words[3], words[4], words[5], {}};
  const auto pool = RegionPool::create();
  const auto server = must(BulkServer::start(options));
  if (!server->add(1, region_of(bytes, pool)))
    std::exit(1);
  say(to_string(server->address()));
  wait_for_end();
}

/// Answers one request with half of what it asks for.
void serve_half(std::size_t bytes) {
  const auto stop = must(transport::Signal::make());
  auto listener = must(transport::listen_tcp({"127.0.0.1", 0}));
  BulkAddress address;
  address.server = 1;
  address.endpoint = {"127.0.0.1", listener.port};
  address.tls = false;
  say(to_string(address));
  if (!transport::wait_for(listener.socket.get(), 1, stop, never))
    std::exit(1);
  transport::Channel channel{must(transport::accept_next(listener.socket.get())), stop};
  transport::Frame frame;
  const std::vector<std::byte> half(bytes / 2);
  if (!channel.read_frame(frame, never)
      || !channel.write_frame(encode(transport::Answer{transport::Status::streamed, 1, bytes}), never)
      || !channel.write_all(half.data(), half.size(), Duration::max(), never))
    std::exit(1);
  say("half");
  wait_for_end();
}

void fetch(const std::string& text, std::uint64_t bytes) {
  const auto address = must(parse_bulk_address(text));
  const auto client = must(BulkClient::create({}));
  const auto region = must(client->fetch(address, 1, bytes, never));
  // The server serves one request of a connection after the other: it holds the region no more when it has answered
  // this one. There is no region with this id.
  if (client->fetch(address, 2, bytes, never))
    std::exit(1);
  say(text);
  wait_for_end();
}

} // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> words{argv + 1, argv + argc};
  if (words.size() != 3 && words.size() != 6)
    return 2;
  const auto bytes = std::strtoull(words[2].c_str(), nullptr, 10);
  if (words[1] == "fetch")
    fetch(words[0], bytes);
  else if (words[1] == "half")
    serve_half(bytes);
  else
    serve_whole(words, bytes);
  return 0;
}
