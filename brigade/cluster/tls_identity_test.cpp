#include <gtest/gtest.h>
#include <openssl/bio.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "brigade/base/handles.h"
#include "brigade/cluster/cluster_key.h"
#include "brigade/cluster/testing/refusal.h"

namespace brigade::cluster {
namespace {

using Context = base::Handle<SSL_CTX, SSL_CTX_free>;
using Session = base::Handle<SSL, SSL_free>;
using Certificate = base::Handle<X509, X509_free>;
using Key = base::Handle<EVP_PKEY, EVP_PKEY_free>;
using Memory = base::Handle<BIO, BIO_free_all>;

Memory text_of(const std::string& pem) {
  return Memory(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
}

Certificate certificate_of(const std::string& pem) {
  return Certificate(PEM_read_bio_X509(text_of(pem).get(), nullptr, nullptr, nullptr));
}

// Demands and checks the peer's certificate, as every port of a cluster does.
Context context_of(const TlsIdentity& identity, int version) {
  Context context(SSL_CTX_new(TLS_method()));
  SSL_CTX_set_min_proto_version(context.get(), version);
  SSL_CTX_set_max_proto_version(context.get(), version);
  const Key key(
      PEM_read_bio_PrivateKey(text_of(identity.private_key).get(), nullptr, nullptr, nullptr));
  EXPECT_EQ(SSL_CTX_use_certificate(context.get(), certificate_of(identity.certificate).get()), 1);
  EXPECT_EQ(SSL_CTX_use_PrivateKey(context.get(), key.get()), 1);
  X509_STORE_add_cert(SSL_CTX_get_cert_store(context.get()),
                      certificate_of(identity.authority).get());
  SSL_CTX_set_verify(context.get(), SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
  return context;
}

// Whether a client and a server with these identities come to terms.
bool shake_hands(const TlsIdentity& client_identity, const TlsIdentity& server_identity,
                 int version) {
  const Context client_context = context_of(client_identity, version);
  const Context server_context = context_of(server_identity, version);
  const Session client(SSL_new(client_context.get()));
  const Session server(SSL_new(server_context.get()));
  BIO* client_end = nullptr;
  BIO* server_end = nullptr;
  BIO_new_bio_pair(&client_end, 0, &server_end, 0);
  SSL_set_bio(client.get(), client_end, client_end);
  SSL_set_bio(server.get(), server_end, server_end);
  SSL_set1_host(client.get(), kTlsName);
  SSL_set_connect_state(client.get());
  SSL_set_accept_state(server.get());
  constexpr int kMostRounds = 10;
  bool is_client_done = false;
  bool is_server_done = false;
  for (int round = 0; round < kMostRounds && !(is_client_done && is_server_done); ++round) {
    is_client_done = SSL_do_handshake(client.get()) == 1;
    is_server_done = SSL_do_handshake(server.get()) == 1;
  }
  return is_client_done && is_server_done;
}

TEST(TlsIdentity, MembersOfOneKeyTrustEachOther) {
  const ClusterKey key = ClusterKey::generate();
  for (const int version : {TLS1_2_VERSION, TLS1_3_VERSION}) {
    EXPECT_TRUE(shake_hands(make_tls_identity(key), make_tls_identity(key), version));
  }
}

TEST(TlsIdentity, APeerWithAnotherKeyIsRefusedOnEitherSide) {
  const TlsIdentity ours = make_tls_identity(ClusterKey::generate());
  const TlsIdentity theirs = make_tls_identity(ClusterKey::generate());
  for (const int version : {TLS1_2_VERSION, TLS1_3_VERSION}) {
    EXPECT_FALSE(shake_hands(theirs, ours, version));
    EXPECT_FALSE(shake_hands(ours, theirs, version));
    // Nor does it help to claim that our authority is its own.
    TlsIdentity liar = theirs;
    liar.authority = ours.authority;
    EXPECT_FALSE(shake_hands(liar, ours, version));
    EXPECT_FALSE(shake_hands(ours, liar, version));
  }
}

TEST(TlsIdentity, AClockThatIsFarOffIsNamedAndNotTheKey) {
  using std::chrono::sys_days;
  const ClusterKey key = ClusterKey::generate();
  for (const auto& [day, text] : std::vector<std::pair<sys_days, std::string>>{
           {sys_days(std::chrono::January / 2 / 1970), "1970-01-02"},
           {sys_days(std::chrono::December / 31 / 2019), "2019-12-31"},
           {sys_days(std::chrono::January / 1 / 2120), "2120-01-01"}}) {
    const std::string refusal = testing::refusal([&] { make_tls_identity(key, day); });
    EXPECT_TRUE(refusal.starts_with("FAILED_PRECONDITION: ")) << refusal;
    EXPECT_NE(refusal.find("clock is far off"), std::string::npos) << refusal;
    EXPECT_NE(refusal.find(text), std::string::npos) << refusal;
  }
  EXPECT_NO_THROW(make_tls_identity(key, sys_days(std::chrono::January / 1 / 2020)));
  EXPECT_NO_THROW(make_tls_identity(key, sys_days(std::chrono::December / 31 / 2119)));
}

TEST(TlsIdentity, AuthorityIsTheSameByteForByteAndLeavesDiffer) {
  const ClusterKey key = ClusterKey::generate();
  const TlsIdentity a = make_tls_identity(key);
  const TlsIdentity b = make_tls_identity(key);
  EXPECT_EQ(a.authority, b.authority);
  EXPECT_NE(a.certificate, b.certificate);
  EXPECT_NE(a.private_key, b.private_key);
  EXPECT_NE(a.authority, make_tls_identity(ClusterKey::generate()).authority);
}

TEST(TlsIdentity, LeafServesBothSidesAndIsNoAuthority) {
  const TlsIdentity identity = make_tls_identity(ClusterKey::generate());
  const Certificate leaf = certificate_of(identity.certificate);
  ASSERT_TRUE(leaf);
  EXPECT_EQ(X509_check_purpose(leaf.get(), X509_PURPOSE_SSL_CLIENT, 0), 1);
  EXPECT_EQ(X509_check_purpose(leaf.get(), X509_PURPOSE_SSL_SERVER, 0), 1);
  EXPECT_EQ(X509_check_ca(leaf.get()), 0);
  EXPECT_EQ(X509_check_ca(certificate_of(identity.authority).get()), 1);
  EXPECT_EQ(X509_check_host(leaf.get(), kTlsName, 0, 0, nullptr), 1);
  EXPECT_EQ(X509_check_host(leaf.get(), "localhost", 0, 0, nullptr), 0);
}

}  // namespace
}  // namespace brigade::cluster
