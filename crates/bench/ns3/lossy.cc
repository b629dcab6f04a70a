// What plain ns-3 sends over a link that loses and delays: the vectors of `tcp/lossy.txt`.
//
//   lossy BYTES LOST_TO_SERVER LOST_TO_CLIENT DELAYS
//
// LOST_* are packets counted from 0 ("3,5" or "-"); DELAYS are the link's, "at_ns:delay_ns,...".
// It prints a line for each segment: time in ns, c(lient) or s(erver), flags, sequence number,
// acknowledgment, payload, blocks.

#include <iostream>
#include <set>
#include <sstream>
#include <string>

#include "ns3/core-module.h"
#include "ns3/internet-module.h"
#include "ns3/network-module.h"
#include "ns3/point-to-point-module.h"

using namespace ns3;

class Losses : public ErrorModel {
 public:
  static TypeId GetTypeId() {
    static TypeId id = TypeId("Losses").SetParent<ErrorModel>().AddConstructor<Losses>();
    return id;
  }
  std::set<uint32_t> lost;

 private:
  bool DoCorrupt(Ptr<Packet>) override { return lost.count(seen_++) > 0; }
  void DoReset() override {}
  uint32_t seen_ = 0;
};

// The reference's patch: the timer of the last acknowledgment is never shorter than 10 ms.
class Patient : public RttEstimator {
 public:
  static TypeId GetTypeId() {
    static TypeId id = TypeId("Patient").SetParent<RttEstimator>().AddConstructor<Patient>();
    return id;
  }
  Patient() { Reset(); }
  void Measurement(Time) override { ++m_nSamples; }
  Ptr<RttEstimator> Copy() const override { return CopyObject<Patient>(this); }
  void Reset() override {
    RttEstimator::Reset();
    m_estimatedRtt = NanoSeconds(10000000 - 10);
    m_estimatedVariation = Seconds(0);
  }
};

static std::set<uint32_t> Numbers(const std::string& text) {
  std::set<uint32_t> numbers;
  std::istringstream in(text);
  for (std::string each; text != "-" && std::getline(in, each, ',');) numbers.insert(std::stoul(each));
  return numbers;
}

static void Sent(std::string who, Ptr<const Packet> packet, const TcpHeader& header,
                 Ptr<const TcpSocketBase>) {
  std::cout << Simulator::Now().GetNanoSeconds() << " " << who << " "
            << TcpHeader::FlagsToString(header.GetFlags(), "+") << " "
            << header.GetSequenceNumber() << " " << header.GetAckNumber() << " "
            << packet->GetSize();
  if (header.HasOption(TcpOption::SACK)) {
    auto sack = DynamicCast<const TcpOptionSack>(header.GetOption(TcpOption::SACK));
    for (auto& block : sack->GetSackList()) std::cout << " " << block.first << "-" << block.second;
  }
  std::cout << "\n";
}

static uint64_t g_bytes;

static void Connected(Ptr<Socket> socket) {
  for (uint64_t left = g_bytes; left > 0;) {
    uint64_t now = std::min<uint64_t>(left, 1024);
    socket->Send(Create<Packet>(now));
    left -= now;
  }
  socket->Close();
}
static void Drain(Ptr<Socket> socket) {
  while (socket->Recv()) {
  }
}
static void Accept(Ptr<Socket> socket, const Address&) { socket->SetRecvCallback(MakeCallback(&Drain)); }

int main(int, char** argv) {
  g_bytes = std::stoull(argv[1]);
  Config::SetDefault("ns3::TcpSocket::SegmentSize", UintegerValue(1024));
  Config::SetDefault("ns3::TcpSocket::SndBufSize", UintegerValue(50u << 20));
  Config::SetDefault("ns3::TcpSocket::RcvBufSize", UintegerValue(50u << 20));
  Config::SetDefault("ns3::TcpSocket::ConnTimeout", TimeValue(MilliSeconds(1)));
  Config::SetDefault("ns3::TcpSocket::ConnCount", UintegerValue(1024));
  Config::SetDefault("ns3::TcpSocketBase::MinRto", TimeValue(MilliSeconds(10)));
  Config::SetDefault("ns3::TcpSocketBase::ClockGranularity", TimeValue(NanoSeconds(10)));
  Config::SetDefault("ns3::RttEstimator::InitialEstimation", TimeValue(MicroSeconds(106)));
  Config::SetDefault("ns3::TcpSocketBase::ReTxThreshold", UintegerValue(2048));

  NodeContainer nodes;
  nodes.Create(2);
  PointToPointHelper link;
  link.SetDeviceAttribute("DataRate", StringValue("10000000Gbps"));
  link.SetQueue("ns3::DropTailQueue", "MaxSize", StringValue("32MiB"));
  NetDeviceContainer devices = link.Install(nodes);
  InternetStackHelper internet;
  internet.Install(nodes);
  Ipv4AddressHelper addresses;
  addresses.SetBase("10.0.0.0", "255.255.255.252");
  Ipv4InterfaceContainer interfaces = addresses.Assign(devices);
  Ptr<Channel> channel = devices.Get(0)->GetChannel();
  std::istringstream delays(argv[4]);
  for (std::string each; std::getline(delays, each, ',');) {
    auto colon = each.find(':');
    Simulator::Schedule(NanoSeconds(std::stoull(each.substr(0, colon))), [=] {
      channel->SetAttribute("Delay", TimeValue(NanoSeconds(std::stoull(each.substr(colon + 1)))));
    });
  }
  for (int end : {0, 1}) {
    Ptr<Losses> losses = CreateObject<Losses>();
    losses->lost = Numbers(argv[end == 1 ? 2 : 3]);
    devices.Get(end)->SetAttribute("ReceiveErrorModel", PointerValue(losses));
  }
  nodes.Get(1)->GetObject<TcpL4Protocol>()->SetAttribute("RttEstimatorType",
                                                         TypeIdValue(Patient::GetTypeId()));
  Ptr<Socket> listener = Socket::CreateSocket(nodes.Get(1), TcpSocketFactory::GetTypeId());
  listener->TraceConnect("Tx", "s", MakeCallback(&Sent));
  listener->Bind(InetSocketAddress(Ipv4Address::GetAny(), 9));
  listener->Listen();
  listener->ShutdownSend();
  listener->SetRecvCallback(MakeCallback(&Drain));
  listener->SetAcceptCallback(MakeNullCallback<bool, Ptr<Socket>, const Address&>(), MakeCallback(&Accept));

  Ptr<Socket> client = Socket::CreateSocket(nodes.Get(0), TcpSocketFactory::GetTypeId());
  client->TraceConnect("Tx", "c", MakeCallback(&Sent));
  Simulator::Schedule(NanoSeconds(1000), [&] {
    client->Bind();
    client->Connect(InetSocketAddress(interfaces.GetAddress(1), 9));
    client->ShutdownRecv();
    client->SetConnectCallback(MakeCallback(&Connected), MakeNullCallback<void, Ptr<Socket>>());
  });
  Simulator::Stop(Seconds(4));
  Simulator::Run();
  Simulator::Destroy();
}
