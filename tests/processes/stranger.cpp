#include "stranger.hpp"

#include <support/catch.hpp>

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <memory>

namespace gpuactors::test {

namespace {

constexpr timeval patience{10, 0};

detail::Descriptor dial(std::uint16_t port) {
  detail::Descriptor socket{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  REQUIRE(socket.get() >= 0);
  ::setsockopt(socket.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  ::setsockopt(socket.get(), SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  INFO("port " << port);
  REQUIRE(::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
  return socket;
}

/// Inodes of the sockets of a process.
std::set<std::string> sockets_of(pid_t pid) {
  std::set<std::string> found;
  std::error_code gone;
  for (const auto& file : std::filesystem::directory_iterator{fmt::format("/proc/{}/fd", pid), gone}) {
    const auto target = std::filesystem::read_symlink(file.path(), gone).string();
    constexpr std::string_view kind = "socket:[";
    if (target.compare(0, kind.size(), kind) == 0)
      found.insert(target.substr(kind.size(), target.size() - kind.size() - 1));
  }
  return found;
}

} // namespace

Stranger::Stranger(std::uint16_t port) : socket_(dial(port)) {
  // nop
}

void Stranger::say(std::string_view bytes) const {
  while (!bytes.empty()) {
    const auto sent = ::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0)
      return;
    bytes.remove_prefix(static_cast<std::size_t>(sent));
  }
}

void Stranger::greet() const {
  std::string line;
  for (char next = 0; next != '\n' && ::recv(socket_.get(), &next, 1, 0) == 1;)
    line += next;
  say(line);
}

bool Stranger::is_sent_away() const {
  char ignored[4096];
  for (;;) {
    const auto got = ::recv(socket_.get(), ignored, sizeof ignored, 0);
    if (got <= 0)
      return got == 0 || errno == ECONNRESET;
  }
}

bool Stranger::was_sent_away() const {
  char ignored[4096];
  for (;;) {
    const auto got = ::recv(socket_.get(), ignored, sizeof ignored, MSG_DONTWAIT);
    if (got <= 0)
      return got == 0 || errno == ECONNRESET;
  }
}

std::string tls_refusal(std::uint16_t port, const std::optional<CertificateFiles>& own) {
  const std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)> context{SSL_CTX_new(TLS_method()), &SSL_CTX_free};
  if (own) {
    REQUIRE(SSL_CTX_use_certificate_file(context.get(), own->certificate.c_str(), SSL_FILETYPE_PEM) == 1);
    REQUIRE(SSL_CTX_use_PrivateKey_file(context.get(), own->key.c_str(), SSL_FILETYPE_PEM) == 1);
  }
  const Stranger stranger{port};
  const std::unique_ptr<SSL, decltype(&SSL_free)> session{SSL_new(context.get()), &SSL_free};
  SSL_set_fd(session.get(), stranger.socket());
  ERR_clear_error();
  char first = 0;
  // What the other side thinks of a certificate is in its first words.
  if (SSL_connect(session.get()) == 1 && SSL_read(session.get(), &first, 1) == 1)
    return {};
  const auto* reason = ERR_reason_error_string(ERR_get_error());
  ERR_clear_error();
  return reason != nullptr ? reason : "(the connection ended)";
}

std::set<std::uint16_t> listening_ports(const std::vector<pid_t>& pids) {
  std::set<std::string> sockets;
  for (const auto pid : pids)
    sockets.merge(sockets_of(pid));
  std::set<std::uint16_t> ports;
  for (const auto* table : {"/proc/net/tcp", "/proc/net/tcp6"}) {
    std::ifstream lines{table};
    std::string line;
    std::getline(lines, line); // the names of the columns
    while (std::getline(lines, line)) {
      std::istringstream columns{line};
      std::string number;
      std::string local;
      std::string remote;
      std::string state;
      std::string skipped;
      std::string inode;
      columns >> number >> local >> remote >> state >> skipped >> skipped >> skipped >> skipped >> skipped >> inode;
      if (state == "0A" && sockets.count(inode) > 0)
        ports.insert(static_cast<std::uint16_t>(std::stoul(local.substr(local.rfind(':') + 1), nullptr, 16)));
    }
  }
  return ports;
}

std::size_t resident_bytes(pid_t pid) {
  std::ifstream status{fmt::format("/proc/{}/status", pid)};
  std::string line;
  while (std::getline(status, line))
    if (line.compare(0, 6, "VmRSS:") == 0)
      return std::stoul(line.substr(6)) * 1024;
  return 0;
}

} // namespace gpuactors::test
