import pytest
import torch

from isentropic.sampler.vllm.devices import check_cards, policy_cards, visible


def test_a_server_has_cards_of_its_own(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0, 1,2,3")
    assert visible(None) == ["0", "1", "2", "3"]
    check_cards("2,3", 2, {"0", "1"})
    check_cards("3,0", 1, {"0", "1"})  # a server on one card takes the first
    for devices, said, card in (("1,2", "1,2", "1"), (None, "null", "0")):
        with pytest.raises(ValueError, match=rf"^sampler.devices={said} puts the server on card {card}, on which"):
            check_cards(devices, 2, {"0", "1"})


def test_where_nothing_is_said_all_cards_are_seen(monkeypatch):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert len(visible(None)) == torch.cuda.device_count()
    if torch.cuda.is_available():
        assert policy_cards() == {"0"}
    else:
        with pytest.raises(ValueError, match=r"^sampler.transfer=nccl sends weights from card to card, and here is "):
            policy_cards()
