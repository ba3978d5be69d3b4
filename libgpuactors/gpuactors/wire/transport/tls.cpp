#include "tls.hpp"

#include <gpuactors/base/clock.hpp>
#include <gpuactors/base/limits.hpp>
#include <gpuactors/wire/detail/loaded.hpp>

#include <fmt/format.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

namespace gpuactors::transport {

namespace {

// The cost of the cipher matters for bulk data: the fastest comes first.
constexpr auto ciphers = "TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256";
// Room for several records, because reading each with its own system call would double the number of calls.
constexpr std::size_t read_buffer = 128U << 10;

using Method = std::unique_ptr<BIO_METHOD, detail::FreeBy<BIO_meth_free>>;

int socket_of(BIO* bio) {
  return static_cast<int>(reinterpret_cast<std::intptr_t>(BIO_get_data(bio)));
}

int finish(BIO* bio, ssize_t moved, void (*set_retry)(BIO*), std::size_t* done) {
  BIO_clear_retry_flags(bio);
  if (moved < 0 && (errno == EAGAIN || errno == EINTR))
    set_retry(bio);
  *done = moved > 0 ? static_cast<std::size_t>(moved) : 0;
  return moved > 0 ? 1 : 0;
}

// Replaces OpenSSL's own socket BIO, which uses write() and so raises SIGPIPE in the user's program.
int write_socket(BIO* bio, const char* data, std::size_t size, std::size_t* done) {
  return finish(
      bio, ::send(socket_of(bio), data, size, MSG_NOSIGNAL), [](BIO* b) { BIO_set_retry_write(b); }, done);
}

int read_socket(BIO* bio, char* data, std::size_t size, std::size_t* done) {
  const auto got = ::recv(socket_of(bio), data, size, 0);
  if (got == 0)
    errno = 0; // marks the end of the stream, instead of an earlier error
  return finish(
      bio, got, [](BIO* b) { BIO_set_retry_read(b); }, done);
}

long control(BIO* /*bio*/, int command, long /*number*/, void* /*pointer*/) {
  return command == BIO_CTRL_FLUSH ? 1 : 0;
}

const BIO_METHOD* method() {
  static const auto instance = [] {
    Method made{BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "gpuactors socket")};
    BIO_meth_set_write_ex(made.get(), write_socket);
    BIO_meth_set_read_ex(made.get(), read_socket);
    BIO_meth_set_ctrl(made.get(), control);
    return made;
  }();
  return instance.get();
}

/// Makes OpenSSL parse the extensions of the certificates that all sessions share now, instead of later in the first of
/// several threads.
void read_extensions(SSL_CTX* context) {
  constexpr int no_purpose = -1;
  const auto* trusted = X509_STORE_get0_objects(SSL_CTX_get_cert_store(context));
  for (int i = 0; i < sk_X509_OBJECT_num(trusted); ++i)
    if (auto* certificate = X509_OBJECT_get0_X509(sk_X509_OBJECT_value(trusted, i)))
      X509_check_purpose(certificate, no_purpose, 0);
  X509_check_purpose(SSL_CTX_get0_certificate(context), no_purpose, 0);
  ERR_clear_error(); // a handshake reports what is wrong with them
}

} // namespace

std::string tls_error() {
  const auto code = ERR_get_error();
  ERR_clear_error();
  const char* reason = ERR_reason_error_string(code);
  return reason != nullptr ? reason : "no reason given";
}

namespace {

using Context = std::unique_ptr<SSL_CTX, detail::FreeBy<SSL_CTX_free>>;
using detail::RevocationLists;

using Lists = std::unique_ptr<STACK_OF(X509_CRL),
                              decltype([](STACK_OF(X509_CRL) * lists) { sk_X509_CRL_pop_free(lists, X509_CRL_free); })>;

/// An authority that has revoked nothing need not have a list, while another one has. OpenSSL says the same of a list
/// that it cannot use, so it counts only if there is none in the store.
int accept_without_list(int accepted, X509_STORE_CTX* context) {
  if (accepted != 0 || X509_STORE_CTX_get_error(context) != X509_V_ERR_UNABLE_TO_GET_CRL)
    return accepted;
  const auto* issuer = X509_get_issuer_name(X509_STORE_CTX_get_current_cert(context));
  const Lists lists{X509_STORE_CTX_get1_crls(context, issuer)};
  if (lists != nullptr && sk_X509_CRL_num(lists.get()) > 0)
    return accepted;
  X509_STORE_CTX_set_error(context, X509_V_OK);
  return 1;
}

/// Has all handshakes of `context` refuse the certificates of these lists.
bool use(const RevocationLists& revocations, SSL_CTX* context) {
  auto* store = SSL_CTX_get_cert_store(context);
  return std::all_of(revocations.begin(), revocations.end(),
                     [&](const auto& list) { return X509_STORE_add_crl(store, list.get()) == 1; })
         && X509_VERIFY_PARAM_set_flags(SSL_CTX_get0_param(context), X509_V_FLAG_CRL_CHECK) == 1;
}

/// Reads the lists of revoked certificates, if there are any. A list that was in use stays in use until there is a
/// newer one of its authority: its file may be away for a moment, or be an old copy.
Result<RevocationLists> load_revocations(const CertificateFiles& files, const RevocationLists& before) {
  if (files.revoked.empty())
    return RevocationLists{};
  GPUACTORS_LET(authorities, detail::load_authorities(files.authority));
  GPUACTORS_LET(lists, detail::load_revocations(files.revoked, authorities));
  // First, so that those of the file count where the numbers are the same.
  for (const auto& last : before)
    if (X509_CRL_up_ref(last.get()) == 1)
      lists.emplace(lists.begin(), last.get());
  return detail::newest_of(authorities, lists);
}

Result<Context> load_context(const CertificateFiles& files, const RevocationLists& revocations) {
  ERR_clear_error();
  Context context{SSL_CTX_new(TLS_method())};
  if (!context)
    return fail(Errc::internal, fmt::format("OpenSSL cannot make a context: {}", tls_error()));
  auto* raw = context.get();
  SSL_CTX_set_min_proto_version(raw, TLS1_3_VERSION);
  SSL_CTX_set_ciphersuites(raw, ciphers);
  SSL_CTX_set_options(raw, SSL_OP_CIPHER_SERVER_PREFERENCE);
  SSL_CTX_set_mode(raw, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  // Without certificates between an authority and its peers, which nobody would look up among the revoked ones.
  SSL_CTX_set_verify_depth(raw, 0);
  SSL_CTX_set_verify(raw, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, accept_without_list);
  // Connections are reused, TLS sessions are not: a ticket would only be unexpected bytes on an idle connection.
  SSL_CTX_set_session_cache_mode(raw, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_num_tickets(raw, 0);
  SSL_CTX_set_read_ahead(raw, 1);
  SSL_CTX_set_default_read_buffer_len(raw, read_buffer);
  if (SSL_CTX_load_verify_locations(raw, files.authority.c_str(), nullptr) != 1)
    return fail(Errc::invalid_argument, fmt::format("{} cannot be used: {}", files.authority.string(), tls_error()));
  if (SSL_CTX_use_certificate_chain_file(raw, files.certificate.c_str()) != 1)
    return fail(Errc::invalid_argument, fmt::format("{} cannot be used: {}", files.certificate.string(), tls_error()));
  if (SSL_CTX_use_PrivateKey_file(raw, files.key.c_str(), SSL_FILETYPE_PEM) != 1)
    return fail(Errc::invalid_argument, fmt::format("{} cannot be used: {}", files.key.string(), tls_error()));
  read_extensions(raw);
  if (SSL_CTX_check_private_key(raw) != 1)
    return fail(Errc::invalid_argument, fmt::format("{} is not the key of {}: {}", files.key.string(),
                                                    files.certificate.string(), tls_error()));
  if (!revocations.empty() && !use(revocations, raw))
    return fail(Errc::internal, fmt::format("OpenSSL cannot use {}: {}", files.revoked.string(), tls_error()));
  return context;
}

/// Attributes of a file by which a change is detected.
struct Stamp {
  ino_t node = 0;
  off_t size = 0;
  std::int64_t seconds = 0;
  std::int64_t nanoseconds = 0;

  friend bool operator==(const Stamp&, const Stamp&) = default;
};

using Stamps = std::array<Stamp, 4>;

Stamps stamps_of(const CertificateFiles& files) {
  Stamps result;
  const std::array paths{&files.authority, &files.certificate, &files.key, &files.revoked};
  for (std::size_t i = 0; i < paths.size(); ++i) {
    struct stat found {};
    if (::stat(paths.at(i)->c_str(), &found) == 0)
      result.at(i) = {found.st_ino, found.st_size, found.st_mtim.tv_sec, found.st_mtim.tv_nsec};
  }
  return result;
}

} // namespace

/// The files are read by a thread of its own: whoever asks for their state, such as an event loop, does not wait for a
/// file system that hangs.
class TlsContext::Loaded {
public:
  static Result<std::shared_ptr<Loaded>> make(const CertificateFiles& files, Notice notice) {
    auto made = std::make_shared<Loaded>();
    made->files_ = files;
    made->notice_ = std::move(notice);
    GPUACTORS_TRY(made->load(stamps_of(files)));
    return made;
  }

  Loaded() = default;
  Loaded(const Loaded&) = delete;
  Loaded& operator=(const Loaded&) = delete;

  ~Loaded() {
    {
      const std::lock_guard lock{asking_};
      stopped_ = true;
    }
    changed_.notify_all();
    if (reader_.joinable())
      reader_.join();
  }

  /// Returns a session with the files as they are now, or as they were before if they cannot be read in time; null on
  /// failure.
  TlsSession session() {
    // Longer than files take that are at hand, and shorter than a handshake may take.
    constexpr std::chrono::seconds patience{1};
    {
      std::unique_lock lock{asking_};
      const auto number = ask();
      if (number > 0 && !hangs_ && !changed_.wait_for(lock, patience, [&] { return looked_ >= number; }))
        hangs_ = true;
    }
    const std::lock_guard lock{mutex_};
    // A session keeps its context alive.
    return TlsSession{SSL_new(context_.get())};
  }

  /// Returns the number of the state of the files that is in use. Has them looked at if nobody has done so for a while.
  std::uint64_t state() {
    constexpr std::chrono::seconds pause{1};
    const auto now = Clock::now().time_since_epoch().count();
    auto due = next_look_.load(std::memory_order_relaxed);
    if (now >= due && next_look_.compare_exchange_strong(due, now + Duration{pause}.count())) {
      const std::lock_guard lock{asking_};
      static_cast<void>(ask());
    }
    return state_;
  }

  [[nodiscard]] CertificateLife life() {
    state();
    const std::lock_guard lock{mutex_};
    return life_;
  }

  [[nodiscard]] bool is_revoked(X509& certificate) {
    const std::lock_guard lock{mutex_};
    return detail::when_revoked(certificate, revocations_).has_value();
  }

private:
  /// With the lock: has the files looked at. @returns the number of the look, or 0 if there is no thread for it.
  std::uint64_t ask() {
    try {
      if (!reader_.joinable())
        reader_ = std::thread{[this] { read(); }};
    } catch (const std::system_error&) { // later, perhaps
      return 0;
    }
    ++asked_;
    changed_.notify_all();
    return asked_;
  }

  /// The body of the thread.
  void read() {
    std::unique_lock lock{asking_};
    for (;;) {
      changed_.wait(lock, [this] { return stopped_ || looked_ < asked_; });
      if (stopped_)
        return;
      const auto number = asked_;
      lock.unlock();
      if (const auto news = look(); notice_ && !news.empty())
        notice_(news);
      lock.lock();
      looked_ = number;
      hangs_ = false;
      changed_.notify_all();
    }
  }

  Result<void> load(const Stamps& stamps) {
    GPUACTORS_LET(revocations, load_revocations(files_, revocations_));
    GPUACTORS_LET(context, load_context(files_, revocations));
    const auto info = detail::describe(*SSL_CTX_get0_certificate(context.get()), files_.certificate);
    stamps_ = stamps;
    {
      const std::lock_guard lock{mutex_};
      context_.swap(context);
      revocations_.swap(revocations);
      life_ = {info.valid_from, info.valid_until};
      ++state_;
    }
    warn_at_ = warns_of(life_, limits::certificate_warning);
    return {};
  }

  /// Returns what there is to be told.
  std::string look() {
    auto news = look_at_files();
    if (news.empty() && std::chrono::system_clock::now() >= warn_at_) {
      warn_at_ = std::chrono::system_clock::now() + std::chrono::hours{24};
      news = fmt::format("the certificate {} ends at {}, and makes no connection after that: issue another one "
                         "(gpuactors certs issue)",
                         files_.certificate.string(), to_string(life_.until));
    }
    return news;
  }

  std::string look_at_files() {
    // Files that could not be loaded are tried again when they change, and once a second: the files may not have been
    // the reason.
    const auto stamps = stamps_of(files_);
    if (stamps == stamps_ || (stamps == tried_ && Clock::now() < try_again_))
      return {};
    tried_ = stamps;
    constexpr std::chrono::seconds pause{1};
    try_again_ = Clock::now() + pause;
    // Who is revoked is told of where that ends a connection.
    const bool same_certificates = std::equal(stamps.begin(), stamps.end() - 1, stamps_.begin());
    if (const auto done = load(stamps); !done) {
      if (std::exchange(refused_, done.error().message()) == done.error().message())
        return {}; // was told
      return "the certificates of this process have changed and cannot be used, so those before stay in use: "
             + refused_;
    }
    refused_.clear();
    if (same_certificates)
      return {};
    return fmt::format("the certificates of this process were read again: {} is valid until {}",
                       files_.certificate.string(), to_string(life_.until));
  }

  CertificateFiles files_;
  Notice notice_;
  std::atomic<std::uint64_t> state_{0};
  std::atomic<Duration::rep> next_look_{0};

  // What is in use. Only the thread changes it, and only what is guarded by `mutex_` is read by others.
  std::mutex mutex_;
  Context context_;
  RevocationLists revocations_;
  CertificateLife life_{};
  // Stamps of the files in use, and of those tried last.
  Stamps stamps_{};
  Stamps tried_{};
  TimePoint try_again_{};
  WallTime warn_at_ = WallTime::max();
  /// Why the files that were tried last cannot be used.
  std::string refused_;

  // The number of the latest look that somebody has asked for, and of the latest that is done.
  std::mutex asking_;
  std::condition_variable changed_;
  std::uint64_t asked_ = 0;
  std::uint64_t looked_ = 0;
  // Somebody has waited for it in vain: nobody else does.
  bool hangs_ = false;
  bool stopped_ = false;
  std::thread reader_;
};

Result<TlsContext> TlsContext::load(const CertificateFiles& files, Notice notice) {
  GPUACTORS_LET(loaded, Loaded::make(files, std::move(notice)));
  return TlsContext{std::move(loaded)};
}

Result<TlsSession> TlsContext::open(int socket, TlsPart part) const {
  auto session = loaded_->session();
  BIO* bio = BIO_new(method());
  if (!session || bio == nullptr) {
    BIO_free(bio);
    return fail(Errc::unavailable, fmt::format("OpenSSL has no session: {}", tls_error()));
  }
  // The data pointer holds the descriptor's number: the session moves with its channel, so there is no stable object to
  // point to.
  BIO_set_data(bio, reinterpret_cast<void*>(static_cast<std::intptr_t>(socket))); // NOLINT(performance-no-int-to-ptr)
  BIO_set_init(bio, 1);
  SSL_set_bio(session.get(), bio, bio);
  if (part == TlsPart::accepts)
    SSL_set_accept_state(session.get());
  else
    SSL_set_connect_state(session.get());
  // OpenSSL demands of a server that its certificate is for servers, unless it is told what else it has to be for.
  if (part == TlsPart::connects_to_any)
    SSL_set_purpose(session.get(), X509_PURPOSE_SSL_CLIENT);
  return session;
}

CertificateLife TlsContext::life() const {
  return loaded_->life();
}

TlsPeer::TlsPeer(const TlsContext& context, const SSL& session)
  : loaded_(context.loaded_), certificate_(SSL_get1_peer_certificate(&session)) {
  // The handshake demands a certificate.
  caller_.name = detail::name_of(*certificate_);
  caller_.administers = detail::role_of(*certificate_) == CertificateRole::node;
}

bool TlsPeer::is_revoked() {
  if (loaded_ == nullptr)
    return false;
  const auto state = loaded_->state();
  if (state == good_in_)
    return false;
  if (loaded_->is_revoked(*certificate_))
    return true;
  good_in_ = state;
  return false;
}

} // namespace gpuactors::transport
