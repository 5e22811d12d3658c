import hcloud
from cloud_emulator import Emulator


async def test_the_client_sends_ids_of_objects_as_numbers(emulator: Emulator):
    def work(client: hcloud.Client) -> None:
        place = client.locations.get_by_name("nbg1")
        debian = client.images.get_by_name_and_architecture("debian-13", "x86")
        small, large = client.server_types.get_by_name("cx23"), client.server_types.get_by_name("cx33")
        server = client.servers.create("web", small, debian, location=place, start_after_create=False).server
        server.change_type(large, upgrade_disk=True).wait_until_finished()
        server.rebuild(debian).action.wait_until_finished()
        server.attach_iso(client.isos.get_by_name("virtio-win-0.1.271.iso")).wait_until_finished()
        server.reload()
        shown = (server.server_type.name, server.image.name, server.location.name)
        assert shown == ("cx33", "debian-13", "nbg1")
        kinds = client.load_balancer_types
        balancer = client.load_balancers.create("lb", kinds.get_by_name("lb11"), location=place).load_balancer
        balancer.change_type(kinds.get_by_name("lb21")).wait_until_finished()
        assert client.load_balancers.get_by_name("lb").load_balancer_type.name == "lb21"
        assert client.primary_ips.create("ipv4", "ip", location=place).primary_ip.location.name == "nbg1"

    await emulator.official(work)
