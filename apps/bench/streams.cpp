#include "streams.hpp"

#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/ssl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <thread>

namespace gpuactors::bench {

namespace {

constexpr std::size_t chunk = 1U << 20;

void must(bool holds, const char* what) {
  if (holds)
    return;
  fmt::print(stderr, "gpuactors-bench: {}\n", what);
  std::exit(1);
}

} // namespace

/// One end: a socket, and TLS over it if there are certificates.
class RawStream::End {
public:
  End(int socket, const std::optional<CertificateFiles>& files, bool accepts) : socket_(socket) {
    const int on = 1;
    ::setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (!files)
      return;
    context_.reset(SSL_CTX_new(TLS_method()));
    SSL_CTX_set_min_proto_version(context_.get(), TLS1_3_VERSION);
    SSL_CTX_set_ciphersuites(context_.get(), "TLS_AES_128_GCM_SHA256");
    must(SSL_CTX_use_certificate_chain_file(context_.get(), files->certificate.c_str()) == 1
             && SSL_CTX_use_PrivateKey_file(context_.get(), files->key.c_str(), SSL_FILETYPE_PEM) == 1,
         "the certificates for the raw stream cannot be used");
    session_.reset(SSL_new(context_.get()));
    SSL_set_fd(session_.get(), socket);
    must((accepts ? SSL_accept(session_.get()) : SSL_connect(session_.get())) == 1, "the raw stream has no TLS");
  }

  End(const End&) = delete;
  End& operator=(const End&) = delete;

  ~End() {
    session_.reset();
    ::close(socket_);
  }

  bool send(const char* data, std::size_t size) {
    for (std::size_t done = 0; done < size;) {
      const auto most = std::min(chunk, size - done);
      const auto sent = session_ ? SSL_write(session_.get(), data + done, static_cast<int>(most))
                                 : ::send(socket_, data + done, most, MSG_NOSIGNAL);
      if (sent <= 0)
        return false;
      done += static_cast<std::size_t>(sent);
    }
    return true;
  }

  bool receive(char* data, std::size_t size) {
    for (std::size_t done = 0; done < size;) {
      const auto most = std::min(chunk, size - done);
      const auto got = session_ ? SSL_read(session_.get(), data + done, static_cast<int>(most))
                                : ::recv(socket_, data + done, most, 0);
      if (got <= 0)
        return false;
      done += static_cast<std::size_t>(got);
    }
    return true;
  }

  void shut() const {
    ::shutdown(socket_, SHUT_RDWR);
  }

private:
  int socket_;
  std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)> context_{nullptr, &SSL_CTX_free};
  std::unique_ptr<SSL, decltype(&SSL_free)> session_{nullptr, &SSL_free};
};

struct RawStream::State {
  std::vector<char> sent;
  std::vector<char> received;
  std::thread sender;
  std::unique_ptr<End> receiver;
};

RawStream::RawStream(std::size_t bytes, const std::optional<CertificateFiles>& certificates)
  : state_(std::make_unique<State>()) {
  state_->sent.assign(bytes, 's');
  state_->received.assign(bytes, 'r');
  const int listener = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  must(::bind(listener, generic, size) == 0 && ::listen(listener, 1) == 0
           && ::getsockname(listener, generic, &size) == 0,
       "there is no port for the raw stream");
  state_->sender = std::thread{[this, listener, certificates] {
    End end{::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC), certificates, true};
    ::close(listener);
    char go = 0;
    while (end.receive(&go, 1) && end.send(state_->sent.data(), state_->sent.size())) {
      // nop
    }
  }};
  const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  must(::connect(socket, generic, size) == 0, "the raw stream cannot connect");
  state_->receiver = std::make_unique<End>(socket, certificates, false);
}

RawStream::~RawStream() {
  state_->receiver->shut();
  state_->sender.join();
}

void RawStream::receive() {
  must(state_->receiver->send("g", 1) && state_->receiver->receive(state_->received.data(), state_->received.size()),
       "the raw stream broke");
}

} // namespace gpuactors::bench
