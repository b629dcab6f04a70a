// The peer of `make bench-fabric`: the same fabric and the same flows as `enroute fabric run
// --scheme direct`, in plain ns-3 from Debian's package. Nothing resolves addresses here; hosts
// talk to each other over IPv4 with ECMP, as ns-3 does by itself. Only the simulation is timed, not
// the building of the topology and its routes.
//
//   ns3-peer PODS RACKS SPINES CORES SERVERS VMS_PER_SERVER tcp|udp TRACE
//
// It prints one line of JSON: packets sent by hosts, flows done, CPU seconds of the run.

#include <sys/resource.h>

#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

#include "ns3/core-module.h"
#include "ns3/internet-module.h"
#include "ns3/network-module.h"
#include "ns3/point-to-point-module.h"

using namespace ns3;

namespace {

constexpr uint16_t kPort = 5000;
constexpr uint32_t kDatagramBytes = 64;

struct Flow {
  uint32_t source, destination;
  uint64_t startNs, bytes;
};

uint64_t g_packets = 0;
uint64_t g_delivered = 0;

void CountPacket(Ptr<const Packet>) { ++g_packets; }

// The fat tree: servers below racks below spines below cores, as enroute draws it.
class Fabric {
 public:
  Fabric(uint32_t pods, uint32_t racks, uint32_t spines, uint32_t cores, uint32_t servers) {
    host_.SetDeviceAttribute("DataRate", StringValue("100Gbps"));
    host_.SetChannelAttribute("Delay", StringValue("1us"));
    host_.SetQueue("ns3::DropTailQueue", "MaxSize", StringValue("32MiB"));
    trunk_ = host_;
    trunk_.SetDeviceAttribute("DataRate", StringValue("400Gbps"));
    servers_.Create(pods * racks * servers);
    tors_.Create(pods * racks);
    spines_.Create(pods * spines);
    cores_.Create(cores);
    internet_.Install(servers_);
    internet_.Install(tors_);
    internet_.Install(spines_);
    internet_.Install(cores_);
    addresses_.SetBase("10.0.0.0", "255.255.255.252");
    for (uint32_t rack = 0; rack < pods * racks; ++rack)
      for (uint32_t server = 0; server < servers; ++server)
        Connect(host_, servers_.Get(rack * servers + server), tors_.Get(rack), true);
    for (uint32_t pod = 0; pod < pods; ++pod)
      for (uint32_t spine = 0; spine < spines; ++spine) {
        Ptr<Node> node = spines_.Get(pod * spines + spine);
        for (uint32_t rack = 0; rack < racks; ++rack)
          Connect(trunk_, tors_.Get(pod * racks + rack), node, false);
        if (pods > 1)
          for (uint32_t core = 0; core < cores / spines; ++core)
            Connect(trunk_, node, cores_.Get(spine * (cores / spines) + core), false);
      }
    Ipv4GlobalRoutingHelper::PopulateRoutingTables();
  }

  Ptr<Node> Server(uint32_t index) const { return servers_.Get(index); }
  uint32_t Servers() const { return servers_.GetN(); }
  Ipv4Address Address(uint32_t index) const { return of_server_[index]; }

 private:
  void Connect(PointToPointHelper& link, Ptr<Node> below, Ptr<Node> above, bool server) {
    NetDeviceContainer devices = link.Install(below, above);
    Ipv4InterfaceContainer interfaces = addresses_.Assign(devices);
    addresses_.NewNetwork();
    if (server) {
      of_server_.push_back(interfaces.GetAddress(0));
      devices.Get(0)->TraceConnectWithoutContext("MacTx", MakeCallback(&CountPacket));
    }
  }

  PointToPointHelper host_, trunk_;
  NodeContainer servers_, tors_, spines_, cores_;
  InternetStackHelper internet_;
  Ipv4AddressHelper addresses_;
  std::vector<Ipv4Address> of_server_;
};

void Drain(Ptr<Socket> socket) {
  while (socket->Recv()) {
  }
}

// The sender closed: so do we, and the flow is done.
void Done(Ptr<Socket> socket) {
  ++g_delivered;
  socket->Close();
}

void Accept(Ptr<Socket> socket, const ns3::Address&) {
  socket->SetRecvCallback(MakeCallback(&Drain));
  socket->SetCloseCallbacks(MakeCallback(&Done), MakeCallback(&Done));
}

void Write(Ptr<Socket> socket, uint64_t bytes) {
  socket->Send(Create<Packet>(static_cast<uint32_t>(bytes)));
  socket->Close();
}

void StartTcp(Ptr<Node> node, InetSocketAddress to, uint64_t bytes) {
  Ptr<Socket> socket = Socket::CreateSocket(node, TcpSocketFactory::GetTypeId());
  socket->Bind();
  socket->Connect(to);
  Write(socket, bytes);
}

void CountDatagrams(Ptr<Socket> socket) {
  while (socket->Recv()) ++g_delivered;
}

void SendUdp(Ptr<Socket> socket, InetSocketAddress to) {
  socket->SendTo(Create<Packet>(kDatagramBytes), 0, to);
}

std::vector<Flow> ReadTrace(const std::string& path) {
  std::ifstream file(path);
  std::vector<Flow> flows;
  std::string line, field;
  while (std::getline(file, line)) {
    if (line.empty() || line[0] == '#') continue;
    std::istringstream fields(line);
    uint64_t numbers[5] = {};
    for (uint64_t& number : numbers) {
      std::getline(fields, field, ',');
      number = std::strtoull(field.c_str(), nullptr, 10);
    }
    flows.push_back({static_cast<uint32_t>(numbers[0]), static_cast<uint32_t>(numbers[1]),
                     numbers[2], numbers[4]});
  }
  return flows;
}

double CpuSeconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  auto seconds = [](const timeval& time) { return time.tv_sec + time.tv_usec / 1e6; };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

void Listen(const Fabric& fabric, bool tcp, std::vector<Ptr<Socket>>& sockets) {
  TypeId type = tcp ? TcpSocketFactory::GetTypeId() : UdpSocketFactory::GetTypeId();
  for (uint32_t index = 0; index < fabric.Servers(); ++index) {
    Ptr<Socket> socket = Socket::CreateSocket(fabric.Server(index), type);
    socket->Bind(InetSocketAddress(Ipv4Address::GetAny(), kPort));
    if (tcp) {
      socket->Listen();
      socket->SetAcceptCallback(MakeNullCallback<bool, Ptr<Socket>, const ns3::Address&>(),
                                MakeCallback(&Accept));
    } else {
      socket->SetRecvCallback(MakeCallback(&CountDatagrams));
    }
    sockets.push_back(socket);
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 9) {
    std::cerr << "usage: ns3-peer PODS RACKS SPINES CORES SERVERS VMS_PER_SERVER tcp|udp TRACE\n";
    return 2;
  }
  auto number = [&](int index) { return static_cast<uint32_t>(std::strtoul(argv[index], nullptr, 10)); };
  const bool tcp = std::string(argv[7]) == "tcp";
  // What the reference model uses (docs/papers/switchv2p.md), where ns-3's default is another.
  Config::SetDefault("ns3::TcpSocket::SegmentSize", UintegerValue(1024));
  Config::SetDefault("ns3::TcpSocket::SndBufSize", UintegerValue(50u << 20));
  Config::SetDefault("ns3::TcpSocket::RcvBufSize", UintegerValue(50u << 20));
  Config::SetDefault("ns3::TcpSocketBase::MinRto", TimeValue(MilliSeconds(10)));
  Config::SetDefault("ns3::Ipv4GlobalRouting::RandomEcmpRouting", BooleanValue(!tcp));

  Fabric fabric(number(1), number(2), number(3), number(4), number(5));
  const uint32_t perServer = number(6);
  std::vector<Ptr<Socket>> sockets;
  Listen(fabric, tcp, sockets);
  std::vector<Ptr<Socket>> senders;
  for (uint32_t index = 0; !tcp && index < fabric.Servers(); ++index)
    senders.push_back(
        Socket::CreateSocket(fabric.Server(index), UdpSocketFactory::GetTypeId()));
  const std::vector<Flow> flows = ReadTrace(argv[8]);
  for (const Flow& flow : flows) {
    const uint32_t from = flow.source / perServer, to = flow.destination / perServer;
    const InetSocketAddress address(fabric.Address(to), kPort);
    const Time at = NanoSeconds(flow.startNs);
    if (tcp)
      Simulator::Schedule(at, &StartTcp, fabric.Server(from), address, flow.bytes);
    else
      Simulator::Schedule(at, &SendUdp, senders[from], address);
  }
  const double before = CpuSeconds();
  // Connections that are closed wait for minutes of simulated time; nothing is sent any more.
  Simulator::Stop(Seconds(5));
  Simulator::Run();
  std::cout << "{\"packets\":" << g_packets << ",\"rows\":" << flows.size()
            << ",\"delivered\":" << g_delivered << ",\"cpu_s\":" << CpuSeconds() - before << "}\n";
  Simulator::Destroy();
  return 0;
}
