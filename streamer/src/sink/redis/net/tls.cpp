#include <fmt/format.h>

#include <stdexcept>
#include <utility>

#include "sink/redis/net/channel.hpp"

#if MILLRACE_HAS_TLS

#include <arpa/inet.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <new>

namespace millrace::sink {
namespace {

struct FreeContext {
  void operator()(SSL_CTX* context) const noexcept { SSL_CTX_free(context); }
};
struct FreeSession {
  void operator()(SSL* session) const noexcept { SSL_free(session); }
};
using Context = std::unique_ptr<SSL_CTX, FreeContext>;

std::string newest_error() {
  std::string text;
  while (const unsigned long error = ERR_get_error()) {
    const char* const reason = ERR_reason_error_string(error);
    text = reason == nullptr ? "an error without a name" : reason;
  }
  return text.empty() ? "the handshake failed" : text;
}

[[noreturn]] void refuse_tls(const std::string& name, const std::string& why) {
  throw SinkError{SinkError::Kind::wrong, fmt::format("{}: TLS: {}", name, why)};
}

/** Replaces OpenSSL's own function, which prompts at the terminal. */
int give_password(char* into, int room, int, void* password) {
  const auto& text = *static_cast<const std::string*>(password);
  if (static_cast<int>(text.size()) > room) return 0;
  std::memcpy(into, text.data(), text.size());
  return static_cast<int>(text.size());
}

void use_certificate(SSL_CTX* context, const RedisTls& tls, const std::string& name) {
  std::string password;
  try {
    if (!tls.key_password.empty()) password = tls.key_password.read();
  } catch (const std::runtime_error& error) {
    refuse_tls(name, error.what());
  }
  SSL_CTX_set_default_passwd_cb(context, give_password);
  SSL_CTX_set_default_passwd_cb_userdata(context, &password);
  if (SSL_CTX_use_certificate_chain_file(context, tls.certificate.c_str()) != 1) {
    refuse_tls(name, fmt::format("{} is not a certificate: {}", tls.certificate, newest_error()));
  }
  if (SSL_CTX_use_PrivateKey_file(context, tls.key.c_str(), SSL_FILETYPE_PEM) != 1) {
    refuse_tls(
        name, fmt::format("{} is not the key of {}: {}", tls.key, tls.certificate, newest_error()));
  }
  SSL_CTX_set_default_passwd_cb_userdata(context, nullptr);
}

Context make_context(const RedisTls& tls, const std::string& name) {
  ERR_clear_error();
  Context context{SSL_CTX_new(TLS_client_method())};
  if (context == nullptr) throw std::bad_alloc{};
  SSL_CTX_set_min_proto_version(context.get(), TLS1_2_VERSION);
  SSL_CTX_set_verify(context.get(), SSL_VERIFY_PEER, nullptr);
  if (tls.ca.empty()) {
    SSL_CTX_set_default_verify_paths(context.get());
  } else if (SSL_CTX_load_verify_locations(context.get(), tls.ca.c_str(), nullptr) != 1) {
    refuse_tls(name, fmt::format("{} has no certificates: {}", tls.ca, newest_error()));
  }
  if (!tls.certificate.empty()) use_certificate(context.get(), tls, name);
  return context;
}

bool is_number(const std::string& host) {
  in6_addr any{};
  return ::inet_pton(AF_INET, host.c_str(), &any) == 1 ||
         ::inet_pton(AF_INET6, host.c_str(), &any) == 1;
}

/** TLS between two buffers in memory. The encrypted bytes go over the connection below, which keeps
 *  deadlines. */
class TlsChannel final : public Channel {
 public:
  TlsChannel(std::unique_ptr<Channel> under, const RedisAddress& address, std::string name,
             const Deadline& by)
      : under_(std::move(under)),
        name_(std::move(name)),
        context_(make_context(*address.tls, name_)),
        session_(SSL_new(context_.get())),
        came_(BIO_new(BIO_s_mem())),
        goes_(BIO_new(BIO_s_mem())) {
    if (session_ == nullptr || came_ == nullptr || goes_ == nullptr) throw std::bad_alloc{};
    BIO_set_mem_eof_return(came_, -1);  // an empty buffer is not the end
    SSL_set_bio(session_.get(), came_, goes_);
    expect(address.tls->server_name.empty() ? address.host : address.tls->server_name);
    until_done(by, [&] { return SSL_connect(session_.get()); });
  }

  void send(std::string_view bytes, const Deadline& by) override {
    until_done(by, [&] {
      return SSL_write(session_.get(), bytes.data(), static_cast<int>(bytes.size()));
    });
  }
  std::size_t receive(std::span<char> into, const Deadline& by) override {
    return static_cast<std::size_t>(until_done(
        by, [&] { return SSL_read(session_.get(), into.data(), static_cast<int>(into.size())); }));
  }

 private:
  /** Requires a certificate with this name, and sends the name to the server (SNI). */
  void expect(const std::string& host) {
    if (is_number(host)) {
      X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(session_.get()), host.c_str());
    } else {
      SSL_set_tlsext_host_name(session_.get(), host.c_str());
      SSL_set1_host(session_.get(), host.c_str());
    }
  }

  template <typename Step>
  int until_done(const Deadline& by, Step&& step) {
    while (true) {
      ERR_clear_error();
      const int done = step();
      const int wants = done > 0 ? SSL_ERROR_NONE : SSL_get_error(session_.get(), done);
      pass_on(by);
      if (done > 0) return done;
      if (wants != SSL_ERROR_WANT_READ) failed(wants);
      std::array<char, 1 << 14> some{};
      const std::size_t got = under_->receive(some, by);
      BIO_write(came_, some.data(), static_cast<int>(got));
    }
  }

  void pass_on(const Deadline& by) {
    std::array<char, 1 << 14> some{};
    for (int bytes = 0; (bytes = BIO_read(goes_, some.data(), some.size())) > 0;) {
      under_->send({some.data(), static_cast<std::size_t>(bytes)}, by);
    }
  }

  [[noreturn]] void failed(int error) const {
    if (error == SSL_ERROR_ZERO_RETURN) {
      throw ConnectionBroke{name_ + ": the connection broke: the server closed it"};
    }
    const long trust = SSL_get_verify_result(session_.get());
    if (trust != X509_V_OK) {
      refuse_tls(name_,
                 fmt::format("the server is not trusted: {} (expected its certificate's issuer "
                             "with ?ca=FILE, and the name in it with ?server-name=NAME)",
                             X509_verify_cert_error_string(trust)));
    }
    refuse_tls(name_, newest_error());
  }

  const std::unique_ptr<Channel> under_;
  const std::string name_;
  const Context context_;
  const std::unique_ptr<SSL, FreeSession> session_;
  BIO* const came_;  ///< the session owns both
  BIO* const goes_;
};

}  // namespace

std::unique_ptr<Channel> make_tls(std::unique_ptr<Channel> under, const RedisAddress& address,
                                  const std::string& name, const Deadline& by) {
  return std::make_unique<TlsChannel>(std::move(under), address, name, by);
}

}  // namespace millrace::sink

#else

namespace millrace::sink {

std::unique_ptr<Channel> make_tls(std::unique_ptr<Channel>, const RedisAddress&,
                                  const std::string& name, const Deadline&) {
  throw SinkError{
      SinkError::Kind::wrong,
      name + ": this build has no TLS; install libssl-dev, and configure and build again"};
}

}  // namespace millrace::sink

#endif
