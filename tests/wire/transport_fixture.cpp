#include "transport_fixture.hpp"

#include <support/catch.hpp>

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>

#include <algorithm>
#include <csignal>
#include <thread>

namespace gpuactors::test {

std::string name_of(Way way) {
  return way == Way::local ? "local" : way == Way::tcp ? "tcp" : "tls";
}

std::string why_not(const Result<SharedRegion>& result, Errc code) {
  REQUIRE_FALSE(result.has_value());
  INFO(result.error().message());
  CHECK(to_string(result.error().code()) == to_string(code));
  return result.error().message();
}

std::size_t open_descriptors() {
  const std::filesystem::directory_iterator entries{"/proc/self/fd"};
  return static_cast<std::size_t>(std::distance(begin(entries), end(entries)));
}

// -- TransportFixture -----------------------------------------------------------------------------

CertificateFiles TransportFixture::certificates(const std::string& authority) {
  const CertificateFolder certs{folder / authority};
  auto files = certs.ensure();
  REQUIRE(files.has_value());
  return *files;
}

std::unique_ptr<BulkServer> TransportFixture::server(Way way, BulkTimes times) {
  BulkServerOptions options;
  options.local = way == Way::local;
  if (way != Way::local)
    options.listening.host = "127.0.0.1";
  if (way == Way::tls)
    options.certificates = certificates();
  options.times = times;
  auto started = BulkServer::start(options);
  INFO((started ? "" : to_string(started.error())));
  REQUIRE(started.has_value());
  return std::move(*started);
}

std::unique_ptr<BulkClient> TransportFixture::client(Way way, BulkTimes times) {
  BulkClientOptions options;
  if (way == Way::tls)
    options.certificates = certificates();
  options.times = times;
  options.pool = pool;
  auto created = BulkClient::create(options);
  REQUIRE(created.has_value());
  return std::move(*created);
}

SharedRegion TransportFixture::filled(std::size_t bytes, unsigned seed) {
  auto draft = pool->make(bytes, RegionReaders::machine);
  REQUIRE(draft.has_value());
  for (std::size_t at = 0; at < bytes; at += 4096)
    std::fill_n(draft->data() + at, std::min<std::size_t>(4096, bytes - at), static_cast<std::byte>(seed + at / 4096));
  return std::move(*draft).seal();
}

bool is_filled(const SharedRegion& region, std::size_t bytes, unsigned seed) {
  if (!region || region.size() != bytes)
    return false;
  for (std::size_t at = 0; at < bytes; at += 4096) {
    const auto* page = region.data() + at;
    const auto size = std::min<std::size_t>(4096, bytes - at);
    if (std::count(page, page + size, static_cast<std::byte>(seed + at / 4096)) != static_cast<std::ptrdiff_t>(size))
      return false;
  }
  return true;
}

// -- Peer -----------------------------------------------------------------------------------------

Peer::Peer(Way way, const std::string& mode, std::size_t bytes, const CertificateFiles* files) {
  std::vector<std::string> words{PEER, name_of(way), mode, std::to_string(bytes)};
  if (files != nullptr)
    words.insert(words.end(), {files->authority.string(), files->certificate.string(), files->key.string()});
  start(std::move(words));
}

Peer::Peer(const BulkAddress& address, std::size_t bytes) {
  start({PEER, to_string(address), "fetch", std::to_string(bytes)});
}

void Peer::start(std::vector<std::string> words) {
  int input[2];
  int output[2];
  REQUIRE(::pipe2(input, O_CLOEXEC) == 0);
  REQUIRE(::pipe2(output, O_CLOEXEC) == 0);
  std::vector<char*> arguments;
  for (auto& word : words)
    arguments.push_back(word.data());
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, input[0], 0);
  ::posix_spawn_file_actions_adddup2(&actions, output[1], 1);
  const int error = ::posix_spawn(&pid_, PEER, &actions, nullptr, arguments.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  ::close(input[0]);
  ::close(output[1]);
  input_ = input[1];
  output_ = ::fdopen(output[0], "r");
  REQUIRE(error == 0);
  const auto address = parse_bulk_address(line());
  REQUIRE(address.has_value());
  address_ = *address;
}

Peer::~Peer() {
  ::close(input_);
  if (pid_ > 0) {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  std::fclose(output_);
}

std::string Peer::line() {
  std::string result;
  for (int c = std::fgetc(output_); c != EOF && c != '\n'; c = std::fgetc(output_))
    result += static_cast<char>(c);
  return result;
}

void Peer::stop() {
  ::kill(pid_, SIGSTOP);
  int status = 0;
  REQUIRE(::waitpid(pid_, &status, WUNTRACED) == pid_);
  REQUIRE(WIFSTOPPED(status));
}

void Peer::go_on() {
  ::kill(pid_, SIGCONT);
}

void Peer::kill() {
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
  pid_ = -1;
}

} // namespace gpuactors::test
